#include <ATen/Parallel.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <thread>

#include "command.h"
#include "experiments/tickets.h"
#include "output.h"
#include "pare/core/file.h"
#include "pare/dist/work_queue.h"
#include "pare/error.h"
#include "pare/workflow/rewind.h"
#include "training.h"

namespace pare::cli {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kMostProcesses = 1024;

// A file that is there as long as this is.
struct ScratchFile {
  ScratchFile(fs::path where, const std::string& text) : path(std::move(where)) {
    write_file_atomically(path, [&](std::ostream& out) { out << text; });
  }
  ~ScratchFile() {
    std::error_code ignored;
    fs::remove(path, ignored);
  }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  fs::path path;
};

class Tickets : public Command {
 public:
  std::string_view name() const override { return "tickets"; }
  std::string_view summary() const override { return "Search for lottery tickets: sparse networks that train as well"; }
  std::vector<Example> examples() const override {
    return {{"iterative magnitude pruning, 5 rounds",
             "pare tickets --arch resnet20 --data cifar10 --method imp --rounds 5 --rewind 2 -o tickets"}};
  }

  bool recorded() const override { return !worker_; }
  Ranks ranks() const override { return Ranks::apart; }
  void describe(OptionVisitor& options) override {
    model_options_.describe(options);
    data_.describe(options);
    options.heading("output");
    options.essential().field("output", output_,
                              "directory for the tickets and their table, made if it does not exist");
    options.heading("search");
    options.essential().field("transfer", transfer_, "also train the tickets that are named on this data");
    options.essential().field("processes", processes_, "search in this many processes at once");
    options.field("join", join_, "HOST:PORT of a search: take candidates from it, without collecting");
    tickets_.describe(options);
    options.only({"transfer", "processes"}, {without("join")});
  }

  nlohmann::json run(Session& session) override {
    const auto start = std::chrono::steady_clock::now();
    if (output_.empty()) throw Error(ErrorKind::usage, "--output", "name a directory for the tickets");
    if (model_options_.arch.empty()) throw Error(ErrorKind::usage, "--arch", "name an architecture");
    if (processes_ < 1 || processes_ > kMostProcesses)
      throw Error(ErrorKind::usage, "--processes", "expected 1 to {}, found {}", kMostProcesses, processes_);
    tickets_.search.training.train.seed = static_cast<uint64_t>(session.common.seed);
    tickets_.check();
    const bool collects = join_.empty() && place_from_environment().rank == 0;
    if (collects) prepare_directory(session);
    const TrainingInput input = load_for_training(session, "", model_options_, data_);
    const Graph& initial = input.model.graph;
    if (!collects) {
      work(session, initial, input.data);
      return {};
    }
    const Dataset test = tested(data_, initial);
    const auto transfer = transfer_.empty() ? std::nullopt : std::optional(load_transfer(session));
    work(session, initial, input.data);
    const Trainer trainer = trainer_with_feedback(session);
    const TicketSearch search = search_tickets(initial, input.data, tickets_, trainer, &test);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    nlohmann::json result = report(session, search, seconds.count());
    if (transfer) result["transfer"] = transferred(session, search, *transfer, trainer);
    write(session, search, initial, result);
    return result;
  }

 private:
  // Where the candidates of this process come from: another one's store, or nowhere.
  std::optional<RankPlace> parsed_join() const {
    if (join_.empty()) return std::nullopt;
    const size_t colon = join_.rfind(':');
    const int port = colon == std::string::npos ? 0 : std::atoi(join_.c_str() + colon + 1);
    if (port < 1 || port > 65535) throw Error(ErrorKind::usage, "--join", "expected HOST:PORT, found {}", join_);
    return RankPlace{.address = join_.substr(0, colon), .port = static_cast<uint16_t>(port)};
  }

  // Ranks that were started together: rank 0 holds the store, works like the others, and then collects.
  void work(Session& session, const Graph& initial, const Dataset& data) {
    const auto joined = parsed_join();
    const RankPlace place = joined ? *joined : place_from_environment();
    if (!joined && place.size == 1) {
      if (processes_ == 1) return;
      search_in_processes(session);
      tickets_.search.training.fresh = false;  // the workers have begun anew
      return;
    }
    const bool worker = joined || place.rank > 0;
    tickets_.search.training.resume = false;  // its candidates may be those that nobody has begun
    TcpStore served;
    if (!worker) served = serve_store(place);
    WorkQueue queue(connect_store(place), ticket_items(tickets_));
    work_on_tickets(initial, data, tickets_, trainer_with_feedback(session), queue);
    if (queue.taken_over() > 0) session.say("note: took over {} candidates of a lost worker\n", queue.taken_over());
    if (!worker) queue.wait_for_others(place.size);
    worker_ = worker;
    tickets_.search.training.fresh = false;  // what is collected now is anew
  }

  // Workers in processes of their own, one thread each; whatever all of them leave is done by the one that collects.
  // They end with this one.
  void search_in_processes(Session& session) const {
    const TcpStore served = serve_store({.port = 0});
    const ScratchFile recipe(fs::path(output_) / fmt::format(".worker-{}.toml", ::getpid()), worker_recipe(session));
    std::vector<pid_t> children;
    for (int64_t i = 0; i < processes_; ++i) {
      std::vector<std::string> arguments = {"pare",
                                            "tickets",
                                            "--recipe",
                                            recipe.path.string(),
                                            "--quiet",
                                            "--join",
                                            fmt::format("127.0.0.1:{}", served.port)};
      std::vector<char*> raw;
      raw.reserve(arguments.size() + 1);
      for (auto& argument : arguments) raw.push_back(argument.data());
      raw.push_back(nullptr);
      const pid_t parent = ::getpid();
      const pid_t child = ::fork();
      if (child > 0) children.push_back(child);
      if (child != 0) continue;
      ::prctl(PR_SET_PDEATHSIG, SIGTERM);
      if (::getppid() != parent) ::_exit(1);
      ::execv("/proc/self/exe", raw.data());
      ::_exit(127);
    }
    session.say("searching in {} processes; others may --join {}:{}\n", children.size(), "127.0.0.1", served.port);
    for (const pid_t child : children) {
      int status = 0;
      ::waitpid(child, &status, 0);
      if (status != 0) session.say("note: a worker ended with status {}; the others do its part\n", status);
    }
    // The cores that they had are free to collect with.
    const auto cores = static_cast<int64_t>(std::max(1U, std::thread::hardware_concurrency()));
    at::set_num_threads(static_cast<int>(std::min(cores, at::get_num_threads() * processes_)));
  }

  // The options in effect, from wherever they come, without those of the one that collects.
  static std::string worker_recipe(const Session& session) {
    CommonOptions common = session.common;
    JsonWriter writer;
    common.describe(writer);
    nlohmann::json options = writer.json();
    options.update(session.recipe);
    for (const char* own : {"processes", "transfer", "join", "json", "quiet", "verbose", "recipe", "print-config"})
      options.erase(own);
    return to_toml(options);
  }

  nlohmann::json report(Session& session, const TicketSearch& search, double seconds) const {
    const auto tested = [](const std::optional<double>& metric) {
      return metric ? fmt::format("{:.4f}", *metric) : std::string();
    };
    Table table({"ticket", "sparsity", "of all parameters", "validation", "test", "search epochs", ""});
    table.add({"dense", "0.00 %", "0.00 %", fmt::format("{:.4f}", search.dense), tested(search.dense_tested), "0", ""});
    auto list = nlohmann::json::array();
    for (size_t i = 0; i < search.tickets.size(); ++i) {
      const Ticket& ticket = search.tickets[i];
      for (const auto& note : ticket.notes) session.say("note: {}: {}\n", ticket.name, note);
      std::string what = search.sparsest_matching == i ? "sparsest matching" : "";
      if (search.best == i) what += what.empty() ? "best performing" : ", best performing";
      table.add({ticket.name, fmt::format("{:.2f} %", 100 * ticket.sparsity.over_masked()),
                 fmt::format("{:.2f} %", 100 * ticket.sparsity.over_parameters()),
                 fmt::format("{:.4f}", ticket.validation), tested(ticket.tested), std::to_string(ticket.search_epochs),
                 what});
      list.push_back({{"name", ticket.name},
                      {"sparsity", ticket.sparsity.over_masked()},
                      {"sparsity_all", ticket.sparsity.over_parameters()},
                      {"validation", ticket.validation},
                      {"search_epochs", ticket.search_epochs}});
      if (ticket.tested) list.back()["metric"] = *ticket.tested;
    }
    session.print("{}", table.text());
    session.say("chosen on {} of the training images, held out of all training; measured on the test images\n",
                tickets_.validation());
    for (const auto& note : search.notes) session.say("note: {}\n", note);
    if (!search.sparsest_matching) session.print("no ticket matches the dense network\n");
    nlohmann::json result = {{"dense", *search.dense_tested},
                             {"dense_validation", search.dense},
                             {"tickets", list},
                             {"as_published", tickets_.as_published},
                             {"splits", splits_json(tickets_.validation())},
                             {"notes", with_flags(search.notes)},
                             {"seconds", {{"total", seconds}}}};
    if (search.sparsest_matching) result["sparsest_matching"] = *search.sparsest_matching;
    if (search.best) result["best_performing"] = *search.best;
    return result;
  }

  fs::path table_path() const { return fs::path(output_) / "tickets.json"; }
  fs::path ticket_path(size_t index) const { return fs::path(output_) / fmt::format("ticket-{}.safetensors", index); }

  // The options that say which tickets are found.
  static nlohmann::json definition(const Session& session) {
    nlohmann::json options = session.recipe;
    for (const char* other : {"output", "transfer", "processes", "join", "resume", "fresh", "tensorboard", "log-every"})
      options.erase(other);
    return options;
  }

  // Makes the directory before anything is trained. Tickets of the same search may be written again.
  void prepare_directory(const Session& session) const {
    make_directory(output_);
    if (session.common.force || (!fs::exists(table_path()) && !fs::exists(ticket_path(0)))) return;
    std::ifstream in(table_path());
    const auto found = nlohmann::json::parse(in, nullptr, false);
    if (!found.is_object() || found.value("search", nlohmann::json()) != definition(session))
      throw Error(ErrorKind::usage, output_, "holds tickets of another search; --force overwrites them");
  }

  void write(Session& session, const TicketSearch& search, const Graph& initial, nlohmann::json result) const {
    size_t index = 0;
    for (const Ticket& ticket : search.tickets)
      write_ticket(ticket_path(index++), ticket, initial, json_text(portable_recipe(session.recipe)));
    std::error_code ignored;
    while (fs::remove(ticket_path(index), ignored)) ++index;  // of a larger search
    result["search"] = definition(session);
    write_file_atomically(table_path(), [&](std::ostream& out) { out << json_text(result, 2) << "\n"; });
  }

  static Dataset tested(const DataChoice& data, const Graph& network) {
    auto test = test_split(data, network);
    if (!test) throw Error(ErrorKind::file, data.data, "has no test split to compare tickets on");
    return std::move(*test);
  }

  // The other data and the architecture for it.
  struct Transfer {
    TrainingInput input;
    Dataset test;
  };
  Transfer load_transfer(Session& session) const {
    DataChoice other = data_;
    other.data = transfer_;
    other.mean.clear();
    other.std.clear();
    ModelOptions options = model_options_;
    options.image.clear();
    options.classes = ModelOptions{}.classes;
    TrainingInput input = load_for_training(session, "", options, other);
    Dataset test = tested(other, input.model.graph);
    return {std::move(input), std::move(test)};
  }

  // The named tickets on the other data, beside the dense network there.
  nlohmann::json transferred(Session& session, const TicketSearch& search, const Transfer& other,
                             const Trainer& trainer) const {
    const auto& [network, data] = other.input;
    Table table({"on " + transfer_, "sparsity", "metric"});
    auto list = nlohmann::json::array();
    const auto add = [&](const std::string& ticket, double sparsity, const Graph& graph) {
      const double metric = metrics_of(evaluate({graph}, other.test), 0).front().second;
      table.add({ticket, fmt::format("{:.2f} %", 100 * sparsity), fmt::format("{:.4f}", metric)});
      list.push_back({{"name", ticket}, {"sparsity", sparsity}, {"metric", metric}});
    };
    TrainingJob job{.kind = "ticket", .what = "dense", .definition = R"({"what":"dense"})"};
    add("dense", 0, trainer(network.graph, data, tickets_.search.training, std::move(job)).graph);
    std::set<size_t> named;
    for (const auto& index : {search.sparsest_matching, search.best}) {
      if (!index || !named.insert(*index).second) continue;
      const Ticket& ticket = search.tickets[*index];
      add(ticket.name, ticket.sparsity.over_masked(), transfer_ticket(ticket, network.graph, data, tickets_, trainer));
    }
    session.print("\n{}", table.text());
    return list;
  }

  ModelOptions model_options_;
  DataChoice data_{.split = "train"};
  std::string output_;
  std::string transfer_;
  int64_t processes_ = 1;
  std::string join_;
  bool worker_ = false;
  TicketOptions tickets_;
};

}  // namespace

std::unique_ptr<Command> make_tickets() { return std::make_unique<Tickets>(); }

}  // namespace pare::cli
