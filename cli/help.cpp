#include "help.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <sstream>

#include "flags.h"

namespace pare::cli {

namespace {

constexpr size_t kIndent = 2, kNames = 26;

// The words of a text in lines that begin with `indent` spaces, the first of them after what stands there already.
std::string wrapped(const std::string& text, size_t indent, size_t width) {
  std::string lines;
  size_t at = indent;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const size_t length = columns(word);
    if (at > indent && at + 1 + length > width) {
      lines += "\n" + std::string(indent, ' ');
      at = indent;
    }
    if (at > indent) lines += ' ', ++at;
    lines += word;
    at += length;
  }
  return lines + "\n";
}

std::string entry(const std::string& name, const std::string& text, size_t width) {
  std::string line = std::string(kIndent, ' ') + name;
  const size_t length = columns(line);
  line += length + 2 > kNames ? "\n" + std::string(kNames, ' ') : std::string(kNames - length, ' ');
  return line + wrapped(text, kNames, width);
}

std::string titled(std::string heading) {
  if (!heading.empty()) heading[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(heading[0])));
  return heading + "\n";
}

std::string flag_entry(const FlagInfo& flag, bool all, size_t width) {
  const std::string name = flag_text(flag) + (flag.placeholder.empty() ? "" : " " + flag.placeholder);
  return entry(name, all ? help_text(flag) : brief_text(flag), width);
}

std::string usage(const Command& command, const FlagLister& lister) {
  return fmt::format("pare {}{} [OPTIONS]\n", command.name(), synopsis(lister));
}

std::string examples_of(const Command& command) {
  std::string text;
  for (const auto& example : command.examples()) text += fmt::format("  # {}\n  {}\n", example.why, example.line);
  return text.empty() ? text : "\nExamples\n" + text;
}

}  // namespace

std::string command_help(Command& command, bool all, size_t width) {
  FlagLister lister;
  command.describe(lister);
  CommonOptions common;
  command.takes_rest() ? common.describe_narration(lister) : common.describe(lister);
  std::string text = usage(command, lister) + "\n" + wrapped(std::string(command.summary()) + ".", 0, width);
  if (!lister.positionals.empty()) text += "\n";
  for (const auto& argument : lister.positionals) text += entry(upper_case(argument.name), argument.help, width);
  size_t hidden = 0;
  for (const auto& [heading, flags] : grouped(lister.flags)) {
    std::string entries;
    for (const auto& flag : flags)
      if (all || flag.essential)
        entries += flag_entry(flag, all, width);
      else
        ++hidden;
    if (!entries.empty()) text += "\n" + titled(heading) + entries;
  }
  text += examples_of(command);
  if (hidden > 0) text += fmt::format("\n{} more options: pare {} --help-all\n", hidden, command.name());
  return text;
}

std::string program_help(size_t width) {
  std::string text = wrapped(
      "pare makes trained neural networks smaller without breaking them, and proves it. A model is an ONNX file, or "
      "weights (.safetensors, .pt, .pth) together with --arch.",
      0, width);
  text += "\npare COMMAND [ARGUMENTS] [OPTIONS]\n";
  for (const auto& [heading, commands] : command_families()) {
    text += "\n" + titled(std::string(heading));
    for (const auto& command : commands)
      text += entry(std::string(command->name()), std::string(command->summary()), width);
  }
  return text +
         "\nExamples\n"
         "  pare inspect model.onnx\n"
         "  pare compress model.onnx --faster 1.5 --max-drop 0.01 --data folder:images -o small.onnx\n"
         "  pare report runs -o report.html\n"
         "\npare COMMAND --help says more; pare --version names libraries and CPU features.\n";
}

size_t help_width() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 100;
  return std::clamp<size_t>(size.ws_col, 60, 120);
}

}  // namespace pare::cli
