#include "browser.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <system_error>
#include <vector>

#include "pare/error.h"

namespace pare::cli {

namespace {

namespace fs = std::filesystem;

// The first of these programs that PATH has; empty where it has none.
std::string found_in_path(const std::vector<std::string>& names) {
  const char* path = std::getenv("PATH");
  const std::string places = path == nullptr ? "" : path;
  for (const auto& name : names)
    for (size_t begin = 0; begin <= places.size();) {
      const size_t end = std::min(places.find(':', begin), places.size());
      const fs::path file = fs::path(places.substr(begin, end - begin)) / name;
      if (end > begin && access(file.c_str(), X_OK) == 0) return file.string();
      begin = end + 1;
    }
  return "";
}

// Starts a program whose output nobody reads. Its process, or 0.
pid_t started(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (const auto& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    posix_spawn_file_actions_addopen(&actions, stream, "/dev/null", stream == STDIN_FILENO ? O_RDONLY : O_WRONLY, 0);
  pid_t process = 0;
  const int failed = posix_spawn(&process, words[0].c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  return failed == 0 ? process : 0;
}

std::string address_of(const fs::path& page) {
  std::string address = "file://";
  for (const char c : fs::absolute(page).string())
    address += std::string_view("%#? ").find(c) == std::string_view::npos
                   ? std::string(1, c)
                   : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  return address;
}

}  // namespace

bool open_page(const fs::path& page) {
  const char* own = std::getenv("BROWSER");
  std::vector<std::string> names = {"xdg-open", "open", "chromium", "google-chrome", "firefox"};
  if (own != nullptr) names.insert(names.begin(), own);
  const std::string program = found_in_path(names);
  return !program.empty() && started({program, address_of(page)}) != 0;
}

void print_page(const fs::path& page, const fs::path& pdf) {
  const std::string browser = found_in_path({"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"});
  if (browser.empty())
    throw Error(ErrorKind::failed, pdf.string(), "a PDF is printed by Chromium or Chrome, and neither is installed");
  const fs::path profile = fs::temp_directory_path() / fmt::format("pare-browser-{}", getpid());
  std::vector<std::string> words = {browser,
                                    "--headless=new",
                                    "--disable-gpu",
                                    "--no-first-run",
                                    "--no-pdf-header-footer",
                                    "--user-data-dir=" + profile.string(),
                                    "--print-to-pdf=" + fs::absolute(pdf).string()};
  if (geteuid() == 0) words.emplace_back("--no-sandbox");  // it refuses to start as root with one
  words.push_back(address_of(page));
  const pid_t process = started(words);
  int status = -1;
  if (process != 0) waitpid(process, &status, 0);
  std::error_code ignored;
  fs::remove_all(profile, ignored);
  if (status != 0 || !fs::is_regular_file(pdf, ignored))
    throw Error(ErrorKind::failed, pdf.string(), "{} could not print the page", browser);
}

}  // namespace pare::cli
