// The channels of a class as points: what an alignment compares.
//
//   weights      the rows of the layers that make a channel, their biases appended, carried into the target's channels
//                along every other axis; `both` adds the columns of the layers that read it
//   activations  what the channel is before its nonlinearity, over samples and places
//   traces       all weights of a channel, in and out, those along other channels' axes in ascending order: the same
//                for every order of the other channels. They tell apart what the above leaves alike.
#pragma once

#include <vector>

#include "pare/dist/process_group.h"
#include "pare/fuse/channel_transport.h"

namespace pare {

struct PointPair {
  at::Tensor source;  // [source channels, d]
  at::Tensor target;  // [target channels, d]
  bool defined() const { return source.defined(); }
};

enum class PointSides { incoming, both };

// Layers whose other axes have classes without a map yet are left out. Where none is left weight_points throws
// Error{unsupported}, and both points of known_weight_points are undefined.
PointPair known_weight_points(const Network& source, const Network& target, size_t channel_class, const ClassMaps& maps,
                              PointSides sides);
PointPair weight_points(const Network& source, const Network& target, size_t channel_class, const ClassMaps& maps,
                        PointSides sides);

// Weights whose other axes are not equally long in both are left out; both are undefined where none is left.
PointPair trace_points(const Network& source, const Network& target, size_t channel_class);

// Values of one run over samples, kept for every class that is not fixed.
class ActivationPoints {
 public:
  // Of all ranks' samples together.
  ActivationPoints(const Network& network, const std::vector<at::Tensor>& samples, ProcessGroup& ranks = alone());
  at::Tensor points(size_t channel_class) const;  // [channels, d]; undefined where it shows in no value

 private:
  std::vector<at::Tensor> points_;
};

}  // namespace pare
