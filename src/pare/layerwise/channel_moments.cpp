#include "pare/layerwise/channel_moments.h"

#include <ATen/ATen.h>

namespace pare {

std::vector<ChannelMoments> channel_moments(SideBySide& graphs, size_t node, const ChannelValues& values,
                                            ProcessGroup& ranks) {
  using Part = std::vector<at::Tensor>;
  std::vector<ChannelMoments> moments;
  graphs.run_to<Part>(
      node,
      [&](const BothValues& piece) {
        Part part = values(piece);
        if (piece.count < piece.all)  // the others only fill a batch
          for (at::Tensor& value : part) value = value.narrow(0, 0, value.size(0) / piece.all * piece.count);
        return part;
      },
      [&](const Part& part) {
        moments.resize(part.size());
        for (size_t i = 0; i < part.size(); ++i) moments[i].add(part[i]);
      });
  for (auto& own : moments) own.sum_over(ranks);
  return moments;
}

}  // namespace pare
