#include "pare/workflow/rotate.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "pare/analysis/streams.h"
#include "pare/layerwise/stream_basis.h"
#include "pare/passes/fuse_layer_norms.h"
#include "pare/passes/rotate_stream.h"
#include "pare/passes/run_pass.h"

namespace pare {

namespace {

constexpr double kMost = 0.99;

const Stream* find(const Streams& streams, const RotatedStream& wanted) {
  for (const Stream& stream : streams.all)
    if (stream.name == wanted.name && stream.width() == wanted.width && stream.reason.empty()) return &stream;
  return nullptr;
}

}  // namespace

RotatedStreams rotate_streams(const Graph& graph, const Samples& samples, Observer& observer) {
  RotatedStreams done{.graph = run_pass(
                          "rotate", [](const Graph& g) { return part_first_norms(fuse_layer_norms(g)); }, graph),
                      .streams = {}};
  Streams streams = find_streams(done.graph);
  const auto bases = stream_bases(done.graph, streams, samples, observer);
  for (size_t i = 0; i < bases.size(); ++i) {
    const Stream& stream = streams.all[i];
    done.streams.push_back({stream.name, stream.width(), 0, stream.reason});
    if (bases[i].parts.defined())
      done.streams.back().most = bases[i].parts.cumsum(0).lt(kMost).sum().item<int64_t>() + 1;
  }
  bool any = false;
  for (size_t i = 0; i < bases.size(); ++i) {
    if (!bases[i].vectors.defined()) continue;
    if (any) streams = find_streams(done.graph);
    const Stream* stream = find(streams, done.streams[i]);
    if (stream == nullptr) continue;
    try {
      done.graph = run_pass(
          "rotate", [&](const Graph& g) { return rotate_stream(g, streams, *stream, bases[i].vectors); }, done.graph);
      any = true;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::unsupported) throw;
      done.streams[i].reason = error.message();
    }
  }
  if (!any) done.graph = graph;
  return done;
}

std::vector<std::string> notes_of(const std::vector<RotatedStream>& streams) {
  std::vector<std::string> notes;
  if (streams.empty()) notes.emplace_back("no residual stream is read through norms: there was nothing to rotate");
  for (const RotatedStream& stream : streams)
    notes.push_back(
        stream.reason.empty()
            ? fmt::format("rotated the stream of {}: {} of {} components hold {:.0f} % of what its norms see",
                          stream.name, stream.most, stream.width, 100 * kMost)
            : fmt::format("did not rotate the stream of {}: {}", stream.name, stream.reason));
  return notes;
}

}  // namespace pare
