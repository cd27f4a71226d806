// The channels of a class as points: what an alignment compares.
//
//   weights      the rows of the layers that make a channel, their biases appended, carried into the target's channels
//                along every other axis; `both` adds the columns of the layers that read it
//   activations  what the channel is before its nonlinearity, over samples and places
#pragma once

#include <vector>

#include "pare/dist/process_group.h"
#include "pare/fuse/channel_transport.h"

namespace pare {

struct PointPair {
  at::Tensor source;  // [source channels, d]
  at::Tensor target;  // [target channels, d]
};

enum class PointSides { incoming, both };

// Layers whose other axes have classes without a map yet are left out.
PointPair weight_points(const Network& source, const Network& target, size_t channel_class, const ClassMaps& maps,
                        PointSides sides);

// Values of one run over samples, kept for every class that is not fixed.
class ActivationPoints {
 public:
  // Of all ranks' samples together.
  ActivationPoints(const Network& network, const std::vector<at::Tensor>& samples, ProcessGroup& ranks = alone());
  at::Tensor points(size_t channel_class) const;  // [channels, d]

 private:
  std::vector<at::Tensor> points_;
};

}  // namespace pare
