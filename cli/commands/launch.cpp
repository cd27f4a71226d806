#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <map>

#include "command.h"
#include "pare/core/interrupt.h"
#include "pare/error.h"

namespace pare::cli {

namespace {

// A port that nobody listens at now.
int free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* plain = reinterpret_cast<sockaddr*>(&address);
  const bool found = socket >= 0 && ::bind(socket, plain, size) == 0 && ::getsockname(socket, plain, &size) == 0 &&
                     address.sin_port != 0;
  if (socket >= 0) ::close(socket);
  if (!found) throw Error(ErrorKind::failed, "launch", "there is no free port");
  return ntohs(address.sin_port);
}

class Launch : public Command {
 public:
  std::string_view name() const override { return "launch"; }
  std::string_view summary() const override { return "Start a command that trains in several processes on this host"; }
  std::vector<Example> examples() const override {
    return {{"two ranks share every batch",
             "pare launch -n 2 train --arch lenet-5 --data fashion-mnist --threads 1 -o model.onnx"}};
  }
  bool recorded() const override { return false; }
  bool takes_rest() const override { return true; }
  void take_rest(std::vector<std::string> words) override { words_ = std::move(words); }

  void describe(OptionVisitor& options) override {
    options.heading("processes");
    options.essential().field("ranks", ranks_,
                              "how many processes; what follows is the command with its options, common ones included");
  }

  nlohmann::json run(Session& session) override {
    if (ranks_ < 1 || ranks_ > 1024) throw Error(ErrorKind::usage, "--ranks", "expected 1 to 1024, found {}", ranks_);
    check_command();
    // How much is told is the command's affair too.
    if (session.common.quiet) words_.insert(words_.begin() + 1, "--quiet");
    if (session.common.verbose) words_.insert(words_.begin() + 1, "--verbose");
    const InterruptWatch watch;
    const int port = free_port();
    std::map<pid_t, int64_t> running;
    for (int64_t rank = 0; rank < ranks_; ++rank) running[start(rank, port)] = rank;
    const int code = wait_for(session, running, watch);
    // The ranks have said what there is to say.
    if (code != 0) std::exit(code);
    return {};
  }

 private:
  void check_command() const {
    if (words_.empty()) throw Error(ErrorKind::usage, "launch", "name a command to start");
    if (words_[0].starts_with("-"))
      throw Error(ErrorKind::usage, words_[0],
                  "is not an option of launch; give it after the command: pare launch -n {} COMMAND {}", ranks_,
                  words_[0]);
    for (const auto& command : all_commands())
      if (command->name() == words_[0]) {
        if (command->ranks() != Ranks::one) return;
        throw Error(ErrorKind::usage, words_[0], "works in one process");
      }
    throw Error(ErrorKind::usage, words_[0], "is not a command; options of launch come before it");
  }

  // In a process group of its own: an interrupt at the terminal comes to this process, which hands it on once.
  pid_t start(int64_t rank, int port) const {
    std::vector<std::string> words = words_;
    words.insert(words.begin(), "pare");
    std::vector<char*> raw;
    for (auto& word : words) raw.push_back(word.data());
    raw.push_back(nullptr);
    const pid_t parent = ::getpid();
    const pid_t child = ::fork();
    if (child < 0) throw Error(ErrorKind::failed, "launch", "a process cannot be started (errno {})", errno);
    if (child > 0) return child;
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(1);
    const std::string size = std::to_string(ranks_);
    for (const auto& [name, value] : std::map<const char*, std::string>{{"RANK", std::to_string(rank)},
                                                                        {"LOCAL_RANK", std::to_string(rank)},
                                                                        {"WORLD_SIZE", size},
                                                                        {"LOCAL_WORLD_SIZE", size},
                                                                        {"MASTER_ADDR", "127.0.0.1"},
                                                                        {"MASTER_PORT", std::to_string(port)}})
      ::setenv(name, value.c_str(), 1);
    ::execv("/proc/self/exe", raw.data());
    ::_exit(127);
  }

  // The first exit code that is not 0; a rank that was killed counts only where no other says more.
  static int wait_for(Session& session, std::map<pid_t, int64_t>& running, const InterruptWatch& watch) {
    int code = 0, killed = 0;
    bool handed_on = false;
    while (!running.empty()) {
      if (watch.interrupted() && !handed_on) {
        for (const auto& [child, rank] : running) ::kill(child, SIGINT);
        handed_on = true;
      }
      int status = 0;
      const pid_t child = ::waitpid(-1, &status, WNOHANG);
      if (child <= 0) {
        ::usleep(20000);
        continue;
      }
      const int64_t rank = running.at(child);
      running.erase(child);
      if (WIFSIGNALED(status)) {
        killed = 128 + WTERMSIG(status);
        session.say("pare: rank {} was ended by signal {}\n", rank, WTERMSIG(status));
      } else if (code == 0) {
        code = WEXITSTATUS(status);
      }
    }
    return code != 0 ? code : killed;
  }

  int64_t ranks_ = 2;
  std::vector<std::string> words_;
};

}  // namespace

std::unique_ptr<Command> make_launch() { return std::make_unique<Launch>(); }

}  // namespace pare::cli
