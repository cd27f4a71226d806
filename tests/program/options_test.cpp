// No command accepts an option that it then ignores. Every option of every command is tried beside every choice of the
// options that choose a method: it is refused by name (exit code 2), or what the command finds or writes is another.
//
// An option that is new needs nothing here as long as a number half as large, a flag or another of its choices shows in
// the outcome; what needs a value or company to show has them in the table of probes, and what says how something is
// done, not what, is listed with its reason.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "command.h"
#include "flags.h"
#include "pare/core/file.h"
#include "pare/data/image.h"
#include "pare/distill/distillation.h"
#include "pare/workflow/train.h"

namespace pare::cli {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

Words joined(std::initializer_list<Words> parts) {
  Words all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

struct Outcome {
  int status = 0;
  std::string found;   // the document that is printed and what lies in the directory afterwards, without times
  std::string errors;  // stderr

  bool refuses(const std::string& option) const {
    return status != 0 && errors.find("--" + option) != std::string::npos;
  }
};

// Times, and names that are made of the options.
void erase_changing(nlohmann::json& value) {
  if (value.is_object())
    for (auto entry = value.begin(); entry != value.end();) {
      const std::string& key = entry.key();
      const bool changing = key.find("second") != std::string::npos || key == "run" || key == "speed_up" ||
                            key == "search" || key == "options";
      entry = changing ? value.erase(entry) : std::next(entry);
    }
  if (value.is_structured())
    for (auto& entry : value) erase_changing(entry);
}

class Laboratory {
 public:
  Laboratory() : root_(fs::path(testing::TempDir()) / fmt::format("pare_options_{}", ::getpid())) {
    fs::remove_all(root_);
    fs::create_directories(root_);
    fs::current_path(root_);
    at::manual_seed(0);
    for (const char* split : {"train", "test"})
      for (int label = 0; label < 3; ++label)
        for (int i = 0; i < 3; ++i) {
          const fs::path file =
              root_ / "data" / split / std::string(1, static_cast<char>('a' + label)) / (std::to_string(i) + ".png");
          fs::create_directories(file.parent_path());
          at::Tensor image = at::randint(200, {3, 20, 26}, at::TensorOptions(at::kByte));
          image.slice(1, 6 * label, 6 * label + 6).fill_(255 - 20 * i);
          write_png(file, image);
        }
    // Other names than the model's own, which would have to be in its order.
    std::ofstream(root_ / "classes.txt") << "c other\nb other\na other\n";
    const Words network = {"--arch",  "vgg9-bn",   "--width", "0.15",       "--image",
                           "3,16,16", "--classes", "3",       "--no-record"};
    expect_done(
        joined({{"train"},
                {"--arch", "vgg9-bn", "--width", "0.15", "--size", "16"},
                data(),
                {"--epochs", "2", "--batch", "3", "-o", path("m.onnx"), "--no-record", "--runs", path("runs")}}));
    expect_done(joined({{"convert"}, network, {"--seed", "1", "-o", path("n.onnx")}}));
    expect_done(joined({{"convert"}, network, {"-o", path("w.safetensors")}}));
  }
  ~Laboratory() {
    fs::current_path(fs::temp_directory_path());
    fs::remove_all(root_);
  }

  std::string path(const std::string& name) const { return (root_ / name).string(); }
  Words data() const { return {"--data", "folder:" + path("data")}; }

  // In a directory of its own.
  Outcome run(const Words& words) {
    const fs::path place = root_ / "place";
    fs::remove_all(place);
    fs::create_directories(place);
    fs::current_path(place);
    Outcome outcome = call(joined({words, {"--json", "--threads", "1"}}));
    outcome.found += listing(place);
    fs::current_path(root_);
    return outcome;
  }

  // One run for all options that are tried beside it.
  const Outcome& run_once(const Words& words) {
    const auto [entry, fresh] = known_.try_emplace(words);
    if (fresh) entry->second = run(words);
    return entry->second;
  }

 private:
  void expect_done(const Words& words) {
    const Outcome outcome = call(words);
    ASSERT_EQ(outcome.status, 0) << fmt::format("{}", fmt::join(words, " ")) << "\n" << outcome.errors;
  }

  static Outcome call(const Words& words) {
    std::vector<std::string> copies = joined({{"pare"}, words});
    std::vector<char*> raw;
    for (auto& word : copies) raw.push_back(word.data());
    Outcome outcome;
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    outcome.status = run_cli(static_cast<int>(raw.size()), raw.data());
    std::fflush(stdout);
    outcome.errors = testing::internal::GetCapturedStderr();
    const std::string printed = testing::internal::GetCapturedStdout();
    nlohmann::json document = nlohmann::json::parse(printed, nullptr, false);
    erase_changing(document);
    outcome.found = document.is_discarded() ? printed : json_text(document);
    return outcome;
  }

  static std::string listing(const fs::path& place) {
    std::set<std::string> lines;
    for (const auto& entry : fs::recursive_directory_iterator(place)) {
      const std::string name = entry.path().lexically_relative(place).string();
      if (!entry.is_regular_file() || name.starts_with("runs/")) continue;
      const std::string kind = entry.path().extension();
      const bool steady = kind == ".onnx" || kind == ".npy" || kind == ".png" || kind == ".safetensors";
      lines.insert("\n" + name + (steady ? " " + sha256_of_file(entry.path()) : ""));
    }
    return fmt::format("{}", fmt::join(lines, ""));
  }

  fs::path root_;
  std::map<Words, Outcome> known_;
};

Laboratory& laboratory() {
  static Laboratory place;
  return place;
}

// What an option is tried with.
struct Probe {
  std::string value;  // empty: made up from its kind
  Words company;      // beside it and without it
};

struct Subject {
  std::string command;
  Words base;                              // a run that does something
  std::map<std::string, Probe> probes;     // of options that need one
  std::map<std::string, std::string> how;  // options that say how, not what: the reason
  std::set<std::string> choosers;          // options whose choices are gone through; empty: all that have choices
  std::set<std::string> tried = {};        // only these; empty: all
};

std::set<std::string> training_family() {
  TrainingOptions training;
  DistillationOptions distillation;
  const auto names = described_names([&](OptionVisitor& visitor) {
    training.describe(visitor);
    distillation.describe(visitor);
  });
  return {names.begin(), names.end()};
}

const std::map<std::string, std::string>& how_of_training() {
  static const std::map<std::string, std::string> reasons = {
      {"resume", "insists on what is the default"},
      {"fresh", "forgets a run that is not there"},
      {"sync-bn", "sums over one rank"},
      {"log-every", "writes into steps.jsonl of the run"},
      {"patience", "what it stops is seen only when validation stops getting better"}};
  return reasons;
}

Probe probe_of(const FlagInfo& flag, const Subject& subject) {
  Probe probe;
  if (const auto found = subject.probes.find(flag.name); found != subject.probes.end()) probe = found->second;
  if (!probe.value.empty() || !flag.takes_value) return probe;
  for (const auto& choice : flag.choices)
    if (!choice.empty() && choice != flag.value && probe.value.empty()) probe.value = choice;
  if (probe.value.empty() && !flag.value.empty()) {
    char* end = nullptr;
    const double number = std::strtod(flag.value.c_str(), &end);
    const bool whole = flag.value.find_first_not_of("0123456789") == std::string::npos;
    if (*end == '\0')
      probe.value = whole ? std::to_string(static_cast<int64_t>(number) + 1) : fmt::format("{}", number / 2);
  }
  return probe;
}

class OptionTrial {
 public:
  explicit OptionTrial(const Subject& subject) : subject_(subject) {
    for (const auto& command : all_commands())
      if (command->name() == subject.command) command->describe(options_);
  }

  void run() {
    if (std::getenv("PARE_FULL") == nullptr) GTEST_SKIP() << "minutes of commands: PARE_FULL=1 tries them";
    const Outcome& whole = laboratory().run_once(words({}));
    ASSERT_EQ(whole.status, 0) << subject_.command << ": " << whole.errors;
    for (const auto& flag : options_.flags) {
      if (!subject_.tried.empty() && !subject_.tried.contains(flag.name)) continue;
      if (!given_in_base(flag.name)) try_option(flag);
    }
  }

 private:
  Words words(const Words& more) const { return joined({{subject_.command}, subject_.base, more}); }

  bool given_in_base(const std::string& name) const {
    const std::string flag = "--" + name;
    const char letter = letter_of(name);
    return std::any_of(subject_.base.begin(), subject_.base.end(), [&](const std::string& word) {
      return word == flag || (letter != 0 && word == std::string("-") + letter);
    });
  }

  void try_option(const FlagInfo& flag) {
    const Probe probe = probe_of(flag, subject_);
    const bool says_how = subject_.how.contains(flag.name);
    ASSERT_TRUE(says_how || !flag.takes_value || !probe.value.empty())
        << subject_.command << " --" << flag.name << " needs a value to be tried with: add a probe";
    Words given = {"--" + flag.name};
    if (flag.takes_value) given.push_back(probe.value.empty() ? "1" : probe.value);
    bool used = compare(flag.name, probe.company, given, says_how);
    for (const auto& chooser : options_.flags) {
      if (chooser.choices.empty() || chooser.name == flag.name || given_in(probe.company, chooser.name)) continue;
      if (!subject_.choosers.empty() && !subject_.choosers.contains(chooser.name)) continue;
      for (const auto& choice : chooser.choices)
        if (!choice.empty())
          used |= compare(flag.name, joined({probe.company, {"--" + chooser.name, choice}}), given, says_how);
    }
    EXPECT_TRUE(used || says_how) << subject_.command << " --" << flag.name << " was refused everywhere";
  }

  static bool given_in(const Words& words, const std::string& name) {
    return std::find(words.begin(), words.end(), "--" + name) != words.end();
  }

  // True where the option made a difference.
  bool compare(const std::string& name, const Words& company, const Words& given, bool says_how) {
    const Outcome tried = laboratory().run(words(joined({company, given})));
    if (tried.refuses(name)) return false;
    const Outcome& usual = laboratory().run_once(words(company));
    if (usual.status != 0 || says_how) return false;  // a choice that is not possible here
    EXPECT_EQ(tried.status, 0) << line(company, given) << ": " << tried.errors;
    EXPECT_NE(tried.found, usual.found) << line(company, given) << ": --" << name << " is accepted and ignored";
    return tried.status == 0;
  }

  std::string line(const Words& company, const Words& given) const {
    return fmt::format("pare {}", fmt::join(words(joined({company, given})), " "));
  }

  const Subject& subject_;
  FlagLister options_;
};

Words in(const std::string& name) { return {laboratory().path(name)}; }

// Architectures have their own subject.
const std::set<std::string>& of_architectures() {
  static const std::set<std::string> names = {"arch",    "activation", "width", "classes",
                                              "dropout", "shortcut",   "bias",  "image"};
  return names;
}

std::map<std::string, std::string> merged(std::map<std::string, std::string> a,
                                          const std::map<std::string, std::string>& b) {
  a.insert(b.begin(), b.end());
  for (const auto& name : of_architectures()) a.emplace(name, "tried in inspect");
  a.emplace("input-shape", "only of inputs that are open, and refused elsewhere");
  return a;
}

Words folder() { return laboratory().data(); }

TEST(Options, OfInspectAndArchitectures) {
  Subject subject{.command = "inspect",
                  .base = {"--arch", "resnet20"},
                  .probes = {{"image", {"3,40,40", {}}},
                             {"classes", {"7", {}}},
                             {"bias", {"no", {}}},
                             {"shortcut", {"b", {}}},
                             {"dropout", {"0.3", {}}}},
                  .how = {{"input-shape", "refused where nothing is open"}, {"layers", "in the printed table alone"}}};
  OptionTrial(subject).run();
  subject.how.emplace("shortcut", "of resnet*, tried above");
  for (const char* arch : {"lenet-5", "vgg9-bn", "resnet18", "wrn-40-4", "mobilenetv1", "mlpnet"}) {
    subject.base = {"--arch", arch};
    if (std::string(arch) == "mlpnet" || std::string(arch) == "lenet-5") subject.probes["image"].value = "1,36,36";
    subject.probes["bias"].value = std::string(arch) == "mlpnet" ? "yes" : "no";  // what it has not by itself
    OptionTrial(subject).run();
  }
}

std::map<std::string, Probe> of_data() {
  return {{"limit", {"4", {}}},
          {"mean", {"0.3", {}}},
          {"std", {"0.3", {}}},
          {"class-map", {laboratory().path("classes.txt"), {}}},
          {"preprocess", {"stretch", {}}}};
}

std::map<std::string, Probe> with_probes(std::map<std::string, Probe> own) {
  own.merge(of_data());
  return own;
}

// Of a folder that a model of a fixed size is shown.
const std::map<std::string, std::string>& how_of_data() {
  static const std::map<std::string, std::string> reasons = {{"size", "the model fixes it"},
                                                             {"split", "learning takes train, and refuses others"},
                                                             {"data-seed", "of scenes alone"},
                                                             {"opset", "other operators only where they changed"}};
  return reasons;
}

std::map<std::string, std::string> all_of(std::initializer_list<std::map<std::string, std::string>> parts) {
  std::map<std::string, std::string> all;
  for (const auto& part : parts) all.insert(part.begin(), part.end());
  return all;
}

TEST(Options, OfPrune) {
  Subject subject{
      .command = "prune",
      .base = joined({in("m.onnx"),
                      {"-o", "out.onnx", "--channels", "0.5", "--round-to", "1", "--no-record", "--no-metadata"},
                      folder()}),
      .probes = with_probes({{"layers", {"*0*", {}}},
                             {"skip", {"*0*", {}}},
                             {"lambda", {"0", {}}},
                             {"threshold", {"0.9", {}}},
                             {"floor", {"0.4", {"--scope", "global", "--criterion", "taylor"}}},
                             {"criterion", {"random", {}}},  // auto is obs or l1, which may agree with others
                             {"scope", {"global", {}}},      // auto is uniform here
                             {"ridge", {"10", {}}},
                             {"terms", {"1", {}}},
                             {"samples", {"2", {}}},
                             {"no-mirror", {"", {"--samples", "3"}}},
                             {"nmf-iterations", {"2", {}}},
                             {"distill-steps", {"2", {}}},
                             {"attribution-drift", {"2", {}}},
                             {"finetune", {"1", {}}},
                             {"save-plan", {"plan.toml", {}}},
                             {"plan-plot", {"plan.svg", {}}},
                             {"steps", {"3", {}}}}),
      .how = merged({{"max-drop", "a gate that is passed, or the command fails"},
                     {"params", "one budget at a time"},
                     {"macs", "one budget at a time"},
                     {"bytes", "one budget at a time"},
                     {"empty", "one budget at a time"},
                     {"widths", "instead of a budget"},
                     {"plan", "instead of -o"},
                     {"scan", "instead of -o"},
                     {"inner-only", "there are no residual streams here"},
                     {"rotate", "there are no residual streams here"},
                     {"attention", "there is no attention here"}},
                    how_of_data()),
      .choosers = {"criterion", "scope", "compensate"}};
  for (const auto& name : training_family()) subject.how.emplace(name, "tried beside --finetune");
  OptionTrial(subject).run();
}

std::map<std::string, Probe> of_training() {
  return {{"epochs", {"3", {}}},
          {"batch", {"2", {}}},
          {"milestones", {"1", {"--schedule", "step"}}},
          {"factor", {"0.5", {"--schedule", "step", "--milestones", "1"}}},
          {"peak", {"0.6", {}}},
          {"warmup", {"1", {}}},
          {"augment", {"flip", {}}},
          {"clip-norm", {"0.001", {}}},
          {"average", {"0.5", {}}},
          {"validation", {"0.3", {}}},
          {"patience", {"1", {"--validation", "0.3"}}},
          {"label-smoothing", {"0.2", {}}},
          {"tensorboard", {"events", {}}},
          {"weight-decay", {"0.1", {}}},
          {"decay-weights-only", {"", {"--weight-decay", "0.1"}}},
          {"nesterov", {"", {}}},
          {"epsilon", {"0.01", {}}},
          {"match-weight", {"7", {}}},
          {"match-layers", {"relu", {}}},
          {"drop", {"0.1", {}}},
          {"alpha", {"0.5", {}}},
          {"temperature", {"2", {"--alpha", "0.5"}}}};
}

TEST(Options, OfFineTuningAfterPruning) {
  const auto family = training_family();
  Subject subject{.command = "prune",
                  .base = joined({in("m.onnx"),
                                  {"-o", "out.onnx", "--channels", "0.5", "--round-to", "1", "--no-record", "--batch",
                                   "3", "--no-metadata", "--finetune", "2"},
                                  folder()}),
                  .probes = of_training(),
                  .how = all_of({how_of_training(), {{"match-layers", "names of layers"}}}),
                  .choosers = {"optimizer", "schedule", "match"},
                  .tried = family};
  OptionTrial(subject).run();
}

TEST(Options, OfTrain) {
  auto probes = of_training();
  probes.merge(of_data());
  Subject subject{.command = "train",
                  .base = joined({{"--model"},
                                  in("m.onnx"),
                                  {"-o", "out.onnx", "--epochs", "2", "--batch", "3", "--no-record", "--no-metadata"},
                                  folder()}),
                  .probes = probes,
                  .how = merged(how_of_training(), how_of_data()),
                  .choosers = {"optimizer", "schedule"}};
  OptionTrial(subject).run();
}

TEST(Options, OfDistill) {
  auto probes = of_training();
  probes.merge(of_data());
  probes["attribution-drift"] = {"2", {}};
  Subject subject{.command = "distill",
                  .base = joined({{"--teacher"},
                                  in("m.onnx"),
                                  {"--student"},
                                  in("n.onnx"),
                                  {"-o", "out.onnx", "--epochs", "2", "--batch", "3", "--no-record", "--no-metadata"},
                                  folder()}),
                  .probes = probes,
                  .how = merged(all_of({how_of_training(),
                                        {{"teacher-arch", "of a teacher that is weights"},
                                         {"teacher-width", "of a teacher that is weights"},
                                         {"beta1", "tried in train"},
                                         {"beta2", "tried in train"},
                                         {"epsilon", "tried in train"},
                                         {"warmup", "tried in train"},
                                         {"match-layers", "names of layers"}}}),
                                how_of_data()),
                  .choosers = {"match"}};
  OptionTrial(subject).run();
}

TEST(Options, OfSparsify) {
  auto how = merged(all_of({how_of_training(), {{"masks", "a file more"}}}), how_of_data());
  for (const auto& name : training_family()) how.emplace(name, "tried in train");
  Subject subject{.command = "sparsify",
                  .base = joined({in("m.onnx"),
                                  {"-o", "out.onnx", "--sparsity", "0.5", "--epochs", "2", "--batch", "3",
                                   "--no-record", "--no-metadata"},
                                  folder()}),
                  .probes = with_probes({{"method", {"gmp", {}}},
                                         {"s-init", {"-0.2", {}}},
                                         {"lambda", {"0.1", {}}},
                                         {"beta-final", {"20", {}}},
                                         {"mask-rate", {"2", {}}},
                                         {"rounds", {"2", {}}},
                                         {"rewind", {"1", {}}},
                                         {"finetune", {"1", {}}},
                                         {"finetune-lr", {"0.001", {"--finetune", "1"}}},
                                         {"gmp-begin", {"0.3", {"--gmp-every", "1"}}},
                                         {"gmp-end", {"0.5", {"--gmp-every", "1"}}},
                                         {"gmp-every", {"1", {}}},
                                         {"include", {"*0*", {}}},
                                         {"exclude", {"*0*", {}}},
                                         {"distribution", {"uniform", {}}},
                                         {"pattern", {"2:4", {}}},
                                         {"masks", {"masks.safetensors", {}}},
                                         {"attribution-drift", {"2", {}}}}),
                  .how = how,
                  .choosers = {"method"}};
  subject.how.emplace("round-rate", "without --sparsity");
  subject.how.emplace("allow-empty", "only where a layer would be emptied");
  for (const char* name : {"block", "samples", "no-mirror"}) subject.how.emplace(name, "of methods that train nothing");
  OptionTrial(subject).run();
}

// Methods that take zeros at once refuse what says how to train.
TEST(Options, OfSparsifyingAtOnce) {
  Subject subject{
      .command = "sparsify",
      .base = joined({in("m.onnx"),
                      {"-o", "out.onnx", "--method", "obs", "--sparsity", "0.5", "--no-record", "--no-metadata"},
                      folder()}),
      .probes = {{"block", {"2x1", {}}},
                 {"samples", {"2", {}}},
                 {"no-mirror", {"", {"--samples", "3"}}},
                 {"include", {"*0*", {}}},
                 {"exclude", {"*0*", {}}},
                 {"pattern", {"2:4", {}}}},
      .how = {},
      .choosers = {"method"},
      .tried = {"block", "samples", "no-mirror", "include", "exclude", "pattern"}};
  OptionTrial(subject).run();
}

TEST(Options, OfQuantize) {
  Subject subject{.command = "quantize",
                  .base = joined({in("m.onnx"), {"-o", "out.onnx", "--no-record", "--no-metadata"}, folder()}),
                  .probes = with_probes({{"percentile", {"80", {}}},
                                         {"block", {"16", {}}},
                                         {"per-tensor", {"", {}}},
                                         {"skip", {"*0*", {}}},
                                         {"keep-first", {"", {}}},
                                         {"keep-last", {"", {}}},
                                         {"samples", {"2", {}}}}),
                  .how = merged({{"scan", "writes nothing"},
                                 {"images", "without data"},
                                 {"distill-steps", "without data"},
                                 {"max-drop", "a gate"},
                                 {"no-mirror", "of colour images"}},
                                how_of_data()),
                  .choosers = {"weights", "activations", "range", "compensate"}};
  OptionTrial(subject).run();
}

TEST(Options, OfFuse) {
  Subject subject{
      .command = "fuse",
      .base = joined({in("m.onnx"), in("n.onnx"), {"-o", "out.onnx", "--no-record", "--no-metadata"}, folder()}),
      .probes = with_probes({{"rho", {"5", {}}},
                             {"inputs", {"9", {}}},
                             {"weights", {"0.2,0.8", {}}},
                             {"samples", {"3", {}}},
                             {"reference", {"1", {}}},
                             {"regularization", {"1", {}}},
                             {"importance", {"l1", {}}},
                             {"into", {laboratory().path("n.onnx"), {}}},
                             {"plans", {"plans", {}}},
                             {"attribution-drift", {"2", {}}}}),
      .how = merged({{"scaling", "where widths differ"}}, how_of_data()),
      .choosers = {"method", "repair", "align", "solver"}};
  OptionTrial(subject).run();
}

TEST(Options, OfMaps) {
  const std::map<std::string, Probe> probes = with_probes({{"steps", {"3", {}}},
                                                           {"samples", {"2", {}}},
                                                           {"noise", {"0.5", {}}},
                                                           {"lrp", {"epsilon", {}}},
                                                           {"count", {"2", {}}},
                                                           {"class", {"1", {}}},
                                                           {"layer", {"input", {}}},
                                                           {"compare", {laboratory().path("n.onnx"), {}}}});
  Subject subject{.command = "explain",
                  .base = joined({in("m.onnx"), {"-o", "maps", "--no-record"}, folder()}),
                  .probes = probes,
                  .how = merged({{"layer", "the methods differ in which they take"}}, how_of_data()),
                  .choosers = {"method"}};
  OptionTrial(subject).run();
}

TEST(Options, OfEval) {
  Subject subject{.command = "eval",
                  .base = joined({in("m.onnx"), in("n.onnx"), {"--no-record"}, folder()}),
                  .probes = with_probes({{"metrics", {"top1", {}}}, {"split", {"train", {}}}}),
                  .how = merged({{"batch", "how many at once, not what"},
                                 {"preprocess", "too few images to tell by one metric"},
                                 {"threshold", "of several labels alone"}},
                                how_of_data()),
                  .choosers = {"split"}};  // of three classes any five are right
  OptionTrial(subject).run();
}

TEST(Options, OfRunConvertVerifyAndDiff) {
  const std::string picture = laboratory().path("data/test/a/0.png");
  Subject run{.command = "run",
              .base = joined({in("m.onnx"), {"--input", picture}}),
              .probes = with_probes({{"output", {"scores", {}}}}),
              .how = merged({{"random", "instead of --input"}}, how_of_data())};
  OptionTrial(run).run();
  Subject convert{.command = "convert",
                  .base = joined({in("m.onnx"), {"-o", "out.onnx", "--no-record"}}),
                  .probes = {},
                  .how = merged({}, how_of_data())};
  OptionTrial(convert).run();
  Subject verify{.command = "verify",
                 .base = joined({in("m.onnx"), in("m.onnx"), {"--no-record"}}),
                 .probes = {},
                 .how = merged({{"samples", "the same of any number of inputs"},
                                {"tolerance", "the same is the same"},
                                {"test-data", "instead of a second model"}},
                               {})};
  OptionTrial(verify).run();
  Subject diff{.command = "diff",
               .base = joined({in("m.onnx"), in("n.onnx"), {"--no-record"}}),
               .probes = {{"html", {"page.html", {}}}, {"samples", {"1", {}}}},
               .how = merged({{"all", "in the printed table alone"}}, {})};
  OptionTrial(diff).run();
}

// Those that are tried above, and those that have their own tests.
TEST(Options, OfEveryCommandAreTried) {
  const std::set<std::string> tried = {"inspect", "prune", "train",   "distill", "sparsify", "fuse",
                                       "explain", "eval",  "convert", "verify",  "diff",     "run"};
  const std::map<std::string, std::string> elsewhere = {
      {"localize", "takes masks; its options are those of explain and eval"},
      {"roar", "trains a classifier for each point; its options are those of explain and train"},
      {"tickets", "searches; its options are those of sparsify"},
      {"bench", "measures time"},
      {"compress", "searches, and measures time; what says which channels may go is as of prune"},
      {"quantize", "what its options change is held in tests/quantize, what it refuses in tests/cli/run.sh"},
      {"report", "makes pages of records"},
      {"reproduce", "measures tables"},
      {"launch", "starts others"},
      {"data", "refuses what is not of its word: tests/cli/run.sh"},
      {"completions", "has no options"}};
  for (const auto& command : all_commands()) {
    const std::string name(command->name());
    EXPECT_NE(tried.contains(name), elsewhere.contains(name)) << name;
  }
}

// A condition that names an option which the command does not have would never hold.
TEST(Options, BelongToOptionsOfTheirCommand) {
  CommonOptions common;
  FlagLister of_all;
  common.describe(of_all);
  for (const auto& command : all_commands()) {
    FlagLister options = of_all;
    command->describe(options);
    std::set<std::string> names;
    for (const auto& flag : options.flags) names.insert(flag.name);
    for (const auto& argument : options.positionals) names.insert(argument.name);
    for (const auto& flag : options.flags)
      for (const auto& scope : flag.scopes)
        EXPECT_TRUE(
            std::any_of(scope.begin(), scope.end(), [&](const Condition& c) { return names.contains(c.option); }))
            << command->name() << " --" << flag.name;
  }
}

}  // namespace
}  // namespace pare::cli
