#include "pare/workflow/compress.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include "pare/analysis/cost.h"
#include "pare/distill/repair.h"
#include "pare/error.h"
#include "pare/layerwise/offset_places.h"
#include "pare/passes/open_batch.h"
#include "pare/passes/precision.h"
#include "pare/passes/remove_channels.h"
#include "pare/passes/working_form.h"
#include "pare/prune/allocate_channels.h"
#include "pare/prune/pruned_cost.h"
#include "pare/quantize/network.h"
#include "pare/train/run_store.h"
#include "pare/workflow/compress_memory.h"
#include "pare/workflow/held_out.h"
#include "pare/workflow/latency_table.h"
#include "pare/workflow/learning_images.h"
#include "pare/workflow/measure.h"

namespace pare {

namespace {

constexpr int64_t kMostHeldOut = 200;

class StageWatch : public Observer {
 public:
  explicit StageWatch(const StageProgress& progress) : progress_(progress) {}
  void progress(std::string_view what, int64_t done, int64_t all) override {
    if (progress_) progress_(std::string(what), done, all);
  }

 private:
  const StageProgress& progress_;
};

class Compressor {
 public:
  Compressor(const Graph& graph, const CompressJob& job)
      : given_(graph),
        job_(job),
        budget_(job.budget()),
        pruning_(job.pruning()),
        images_(pruning_, false, result_.notes, image_seconds_),
        watch_(job.progress),
        meter_(job.runtime, job.batch, job.seed),
        network_(with_offset_places(working_form(graph))),
        map_(analyze_channels(network_)),
        groups_(candidates(network_, map_, budget_)) {}

  CompressResult run() {
    const auto start = std::chrono::steady_clock::now();
    result_.runtime = meter_.description();
    if (job_.given == nullptr && !job_.plan) measure_.emplace(given_, pruning_);
    if (measure_ && measure_->by_distance()) result_.notes.push_back(measure_->note());
    learn();
    result_.before = measured_of(given_, "measuring the original");
    const std::optional<Selection> found = job_.plan ? to_goal() : sought();
    result_.graph = given_;
    if (found) {
      for (const auto& plan : found->groups)
        result_.groups.push_back(
            {.name = plan.name, .total = plan.total, .kept = plan.kept, .reason = plan.reason, .loss = plan.loss});
      if (!job_.plan) {
        result_.graph = finished(job_.minutes > 0 ? repaired(*found) : solved(*found, images_.samples(network_)));
        result_.after = measured_of(result_.graph, "measuring the result");
        if (job_.int8) quantize_result();
        job_.data.keep_asked(result_.graph);
      } else {
        result_.after = measured_of(without(*found), "");
      }
    }
    note_interval();
    sort_points();
    result_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return std::move(result_);
  }

 private:
  // On data that is named; of a plan and of samples only the size.
  Measured measured_of(const Graph& graph, const std::string& what) const {
    return measure_ ? (*measure_)(graph, what) : measured(graph, nullptr, job_.progress, what);
  }

  // Says so where the samples are too few to tell a drop like the one that is allowed from none.
  void note_interval() {
    if (!job_.max_drop || job_.plan) return;
    const CompressPoint& judged = result_.reached ? result_.points[result_.chosen] : result_.points.back();
    if (judged.interval <= *job_.max_drop) return;
    result_.notes.push_back(
        fmt::format("{} held-out samples judged: the drop of {:.4f} is known to ± {:.4f}, wider than the {} that "
                    "`max-drop` asks for{}",
                    result_.held_out, judged.drop, judged.interval, *job_.max_drop,
                    result_.held_out < kMostHeldOut ? "; more `samples` would tell" : ""));
  }

  // The result as integers, and what each step did.
  void quantize_result() {
    const Graph pruned = result_.graph;
    QuantizedNetwork found = quantize_network(working_form(pruned), images_.samples(network_),
                                              images_.mirrored(network_), {.seed = job_.seed}, watch_);
    result_.notes.insert(result_.notes.end(), found.notes.begin(), found.notes.end());
    result_.graph = close_batch(std::move(found.graph), given_);
    result_.steps = {{"original", result_.before}, {"pruned", result_.after}};
    result_.after = measured_of(result_.graph, "measuring the integers");
    result_.steps.push_back({"int8", result_.after});
    const auto times = meter_.measure({given_, pruned, result_.graph}, timing("timing the steps"));
    for (size_t i = 0; i < times.size(); ++i) result_.steps[i].latency = times[i].undisturbed();
  }

  // --- what is learned once

  void learn() {
    const Samples& all = images_.samples(network_);
    if (all.size < 4)
      throw Error(ErrorKind::usage, "samples", "expected 4 or more to learn from and to judge by, found {}", all.size);
    CompressPoint original = sized(given_);
    original.latency = original.base_latency = time_original();
    const int64_t held =
        std::clamp<int64_t>(static_cast<int64_t>(0.3 * static_cast<double>(all.size)), 1, kMostHeldOut);
    held_.emplace(network_, part_of(all, 0, held), watch_);
    result_.metric = held_->metric();
    result_.held_out = held;
    learned_ = part_of(all, held, all.size);
    memory_.emplace(job_.memory, key_of(all));
    std::optional<ChannelStudy> known = memory_->study();
    if (!known) {
      known = study_channels(network_, map_, groups_, learned_, {.seed = job_.seed}, watch_);
      memory_->keep(*known);
    }
    study_ = std::move(*known);
    original.score = held_->original();
    result_.points.push_back(original);
  }

  double time_original() {
    const auto time = [&] { return meter_.measure({given_}, timing("timing the original"))[0].undisturbed(); };
    try {
      return time();
    } catch (const Error& error) {
      if (job_.runtime != Runtime::automatic || meter_.runtime() == Runtime::pare) throw;
      result_.notes.push_back(fmt::format("timed by pare itself: {}", error.what()));
      meter_ = LatencyMeter(Runtime::pare, job_.batch, job_.seed);
      result_.runtime = meter_.description();
      return time();
    }
  }

  // What study and points are of: the network, the samples as far as their ends tell, and which groups may be cut.
  std::string key_of(const Samples& all) const {
    TensorMap ends;
    const auto first = all.inputs(0, 1), last = all.inputs(all.size - 1, all.size);
    for (size_t i = 0; i < first.size(); ++i) ends[fmt::format("{}", i)] = at::cat({first[i], last[i]});
    std::string open;
    for (const auto& group : groups_) open += fmt::format("{} ", group.open() ? group.unit : 0);
    return fmt::format("{} {} {} {} {} {} {} {}", kRunFormat, fingerprint(given_), all.size, fingerprint(ends),
                       job_.seed, job_.no_mirror, open, result_.runtime);
  }

  BenchmarkOptions timing(const char* what) {
    return {.rounds = 100, .seconds = 5, .progress = [this, what](int64_t done, int64_t all) {
              watch_.step(what, done, all);
            }};
  }

  // --- the search

  bool has_size_goal() const { return job_.faster || job_.latency || job_.macs || job_.params || job_.bytes; }

  std::optional<Selection> sought() { return has_size_goal() ? goal_within_drop() : smallest_within_drop(); }

  // Widths that reach the goal of size or speed.
  Selection to_goal() {
    if (job_.faster || job_.latency) return at_speed();
    return allocate_channels(network_, map_, groups_, study_, budget_);
  }

  std::optional<Selection> goal_within_drop() {
    const Selection goal = to_goal();
    if (const auto half = halfway(goal)) probe(*half);
    const CompressPoint point = probe(goal);
    result_.chosen = result_.points.size() - 1;
    if (!job_.max_drop || point.drop <= *job_.max_drop) return goal;
    miss(fmt::format("{} falls by {:.4f} ± {:.4f} on {} held-out samples, by more than {}", result_.metric, point.drop,
                     point.interval, result_.held_out, *job_.max_drop));
    return {};
  }

  // Bisection of the multiply-accumulates that go.
  std::optional<Selection> smallest_within_drop() {
    constexpr double kClose = 0.02;
    constexpr int kMost = 7;
    const PrunedCost cost(network_, map_, Budget::macs);
    std::optional<Selection> best;
    double good = 0, bad = 1;
    double next = 0.15;
    for (int i = 0; i < kMost && bad - good > kClose; ++i) {
      bool within = false;
      if (const auto selection = allocated(cost, cost({}) * (1 - next))) {
        const CompressPoint point = probe(*selection);
        within = point.drop <= *job_.max_drop;
        if (within) best = *selection, result_.chosen = result_.points.size() - 1;
      }
      (within ? good : bad) = next;
      next = bad < 1 ? (good + bad) / 2 : std::min(2 * good, (good + 1) / 2);
    }
    if (!best)
      miss(fmt::format("{:.1f} % fewer multiply-accumulates already cost more than {}", 100 * bad, *job_.max_drop));
    return best;
  }

  void miss(std::string why) {
    result_.reached = false;
    result_.missed = std::move(why);
    result_.chosen = 0;
  }

  // Nothing where the budget is beyond reach.
  std::optional<Selection> allocated(const ChannelCost& cost, double budget) const {
    try {
      return allocate_channels(groups_, study_, cost, budget, budget_);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::usage) throw;
      return {};
    }
  }

  // The table tells widths; how fast they are is measured, and what is missing asked of the table.
  Selection at_speed() {
    constexpr int kTries = 5;
    const LatencyTable table(network_, map_, groups_, meter_, watch_);
    const auto cost = [&](const std::set<ChannelId>& removed) { return table(removed); };
    const double wanted = job_.faster ? 1 / *job_.faster : *job_.latency / 1000 / table.whole();
    if (wanted >= 1)
      throw Error(ErrorKind::usage, OptionName{"latency"}, "the original takes {:.2f} ms already",
                  1000 * table.whole());
    constexpr double kClose = 0.03;
    double aim = wanted, most = 0, fastest = 1;
    std::optional<Selection> best, nearest;  // that cuts least, of those fast enough; that is fastest
    for (int i = 0; i < kTries; ++i) {
      const auto selection = allocated(cost, table.whole() * aim);
      if (!selection) break;
      const auto times = meter_.measure({given_, without(*selection)}, timing("timing the plan"));
      const double took = times[1].undisturbed() / times[0].undisturbed();
      if (took < fastest) nearest = selection, fastest = took;
      if (took <= wanted && aim > most) best = selection, most = aim;
      if (took <= wanted && took > (1 - kClose) * wanted) break;
      aim *= (1 - kClose / 3) * wanted / took;
      if (aim <= most) aim = (1 + kClose / 3) * most;
    }
    if (!best && fastest > 1.02 * wanted) throw unreachable(1 / fastest);
    return best ? *best : *nearest;
  }

  Error unreachable(double speed_up) const {
    return Error(ErrorKind::usage, OptionName{job_.faster ? "faster" : "latency"},
                 "is beyond reach by removing channels: about {:.2f} times as fast is", speed_up);
  }

  // A second point of what can be had: half as many multiply-accumulates gone.
  std::optional<Selection> halfway(const Selection& goal) const {
    const PrunedCost cost(network_, map_, Budget::macs);
    return allocated(cost, (cost({}) + cost(goal.removed())) / 2);
  }

  // --- one network

  CompressPoint probe(const Selection& selection) {
    std::map<std::string, int64_t> widths;
    for (const auto& plan : selection.groups)
      if (!plan.removed.empty()) widths[plan.name] = plan.kept;
    std::optional<CompressPoint> known = memory_->point(widths);
    if (!known) {
      const Graph graph = solved(selection, learned_);
      CompressPoint point = sized(finished(graph));
      point.widths = widths;
      const auto times = meter_.measure({given_, finished(graph)}, timing("timing the model"));
      point.base_latency = times[0].undisturbed();
      point.latency = times[1].undisturbed();
      const HeldOutScore score = held_->score(graph);
      point.score = score.score;
      point.drop = score.drop;
      point.interval = score.interval;
      memory_->keep(point);
      known = point;
    }
    result_.points.push_back(*known);
    return *known;
  }

  static CompressPoint sized(const Graph& graph) {
    const ModelCost cost = cost_of(graph);
    return {.macs = cost.macs, .parameters = cost.parameters, .bytes = cost.bytes};
  }

  Graph solved(const Selection& selection, const Samples& samples) {
    std::vector<GroupCut> cuts;
    for (const auto& plan : selection.groups)
      if (!plan.removed.empty())
        cuts.push_back({plan.group, plan.removed, static_cast<int64_t>(plan.removed.size()), /*choose=*/true});
    if (cuts.empty()) return network_;
    RefitOptions options;
    options.read.seed = job_.seed;
    options.fisher = study_.fisher;
    return without_zero_offsets(
        refit(network_, map_, cuts, images_.mirrored(network_, samples), options, watch_).graph);
  }

  // The held-out samples are needed to judge by: this one does not learn from them.
  Graph repaired(const Selection& selection) {
    const Samples judging = part_of(images_.samples(network_), 0, result_.held_out);
    const Repaired best = repair(network_, solved(selection, learned_), learned_, judging,
                                 {.minutes = job_.minutes, .mirror = !job_.no_mirror, .seed = job_.seed}, watch_);
    result_.notes.push_back(repair_note(best, result_.held_out));
    return best.graph;
  }

  // Shaped like the result, with the weights that are there: what is timed before anything is solved.
  Graph without(const Selection& selection) const {
    return finished(without_zero_offsets(remove_channels(network_, map_, selection.removed())));
  }

  Graph finished(Graph graph) const { return close_batch(narrowed_like(std::move(graph), given_), given_); }

  // From the largest on; the original is the first.
  void sort_points() {
    if (result_.points.empty()) return;
    const auto chosen = result_.points[result_.chosen].widths;
    std::stable_sort(result_.points.begin() + 1, result_.points.end(),
                     [](const CompressPoint& a, const CompressPoint& b) { return a.macs > b.macs; });
    const auto found = std::find_if(result_.points.begin(), result_.points.end(),
                                    [&](const CompressPoint& point) { return point.widths == chosen; });
    result_.chosen = static_cast<size_t>(found - result_.points.begin());
  }

  const Graph& given_;
  const CompressJob& job_;
  const BudgetOptions budget_;
  const PruneJob pruning_;
  CompressResult result_;
  std::optional<Measure> measure_;
  double image_seconds_ = 0;
  LearningImages images_;
  StageWatch watch_;
  LatencyMeter meter_;
  const Graph network_;  // as methods take it, with places for offsets
  const ChannelMap map_;
  std::vector<Candidate> groups_;
  Samples learned_;
  std::optional<HeldOut> held_;
  std::optional<CompressMemory> memory_;
  ChannelStudy study_;
};

}  // namespace

CompressResult compress(const Graph& graph, const CompressJob& job) {
  job.check();
  if (!job.pruning().has_data()) throw Error(ErrorKind::usage, OptionName{"data"}, "name the images to learn from");
  return Compressor(graph, job).run();
}

CompressResult compress(const Graph& graph, const Samples& samples, const CompressOptions& options,
                        Observer& observer) {
  CompressJob job;
  static_cast<CompressOptions&>(job) = options;
  job.given = &samples;
  job.progress = [&](const std::string& what, int64_t done, int64_t all) { observer.step(what, done, all); };
  return compress(graph, job);
}

}  // namespace pare
