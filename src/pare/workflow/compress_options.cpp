#include "pare/error.h"
#include "pare/workflow/compress.h"

namespace pare {

void CompressOptions::describe(OptionVisitor& options) {
  options.heading("the goal");
  options.essential().field("faster", faster, "this many times as fast");
  options.essential().field("latency", latency, "or: at most this many milliseconds per batch");
  options.essential().field("macs", macs, "or: this fraction of the multiply-accumulates removed");
  options.essential().field("params", params, "or: of the parameters");
  options.field("bytes", bytes, "or: of the bytes of the weights");
  options.essential().field("max-drop", max_drop,
                            "top-1 (without labels: agreement with the original) may drop by this much on held-out "
                            "images; alone: the smallest model within it");
  options.heading("speed");
  options.essential().field("runtime", runtime, "whose latency counts (auto: ONNX Runtime where it is installed)");
  options.field("batch", batch, "images in a timed run");
  options.heading("what may be removed");
  options.field("layers", layers, "GLOB or GLOB=FRACTION: cut only these groups");
  options.essential().field("skip", skip, "GLOB: do not cut these groups");
  options.field("round-to", round_to, "widths that are left are multiples of this (0: of 8, of narrow groups of less)");
  options.field("floor", floor, "at least this fraction of a group stays");
  options.field("inner-only", inner_only, "leave residual streams alone");
  options.heading("how to make up for it");
  options.essential().field("samples", samples, "images to learn from and to judge by (0: 512)");
  options.field("no-mirror", no_mirror, "do not learn from the mirror images of colour images too");
  options.essential().field(
      "minutes", minutes, "minutes of repair at the end: distillation from the original on the images, without labels");
  options.essential().field("int8", int8, "then store weights and activations as 8-bit integers");
  options.heading("output");
  options.essential().field("plan", plan,
                            "only show which widths would reach the goal; needs a goal besides --max-drop");
  options.only({"int8"}, {without("plan")});
}

void CompressJob::describe(OptionVisitor& options) {
  CompressOptions::describe(options);
  data.describe(options);
}

void CompressJob::check() const {
  const int goals = (faster ? 1 : 0) + (latency ? 1 : 0) + (macs ? 1 : 0) + (params ? 1 : 0) + (bytes ? 1 : 0);
  if (goals > 1)
    throw Error(ErrorKind::usage, "compress", "expected one of `faster`, `latency`, `macs`, `params` and `bytes`");
  if (goals == 0 && !max_drop)
    throw Error(ErrorKind::usage, "compress",
                "a goal is missing: `faster`, `latency`, `macs`, `params`, `bytes` or `max-drop`");
  if (plan && goals == 0)
    throw Error(ErrorKind::usage, OptionName{"plan"}, "a plan needs a goal besides `max-drop`, which is searched for");
  if (faster && !(*faster > 1 && *faster < 1e6))
    throw Error(ErrorKind::usage, OptionName{"faster"}, "expected more than 1, found {}", *faster);
  if (latency && !(*latency > 0))
    throw Error(ErrorKind::usage, OptionName{"latency"}, "expected more than 0 ms, found {}", *latency);
  if (!(minutes >= 0 && minutes <= 10080))
    throw Error(ErrorKind::usage, OptionName{"minutes"}, "expected 0 to 10080, found {}", minutes);
  if (max_drop && !(*max_drop >= 0 && *max_drop <= 1))
    throw Error(ErrorKind::usage, OptionName{"max-drop"}, "expected 0 to 1, found {}", *max_drop);
}

PruneJob CompressJob::pruning() const {
  PruneJob job;
  job.data = data;
  job.given = given;
  job.samples = samples > 0 ? samples : 512;
  job.no_mirror = no_mirror;
  job.seed = seed;
  job.progress = progress;
  job.criterion = "obs";
  job.compensate = "calibrated";
  return job;
}

BudgetOptions CompressJob::budget() const {
  BudgetOptions budget;
  budget.budget = params ? Budget::params : bytes ? Budget::bytes : Budget::macs;
  budget.scope = Scope::allocate;
  if (const auto ratio = params ? params : bytes ? bytes : macs) budget.ratio = *ratio;
  budget.layers = layers;
  budget.skip = skip;
  budget.round_to = round_to == 0 ? 8 : round_to;
  budget.finer = round_to == 0;
  budget.floor = floor;
  budget.inner_only = inner_only;
  return budget;
}

}  // namespace pare
