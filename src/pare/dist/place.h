// The place of a process among those that were started together, as launchers tell it by the environment:
//   torchrun, pare launch   RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT
//   Open MPI's mpirun       OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE, OMPI_COMM_WORLD_LOCAL_SIZE
//   MPICH, Slurm's PMI      PMI_RANK, PMI_SIZE
// MASTER_ADDR and MASTER_PORT are those of rank 0; where only MPI's variables are set they must be given as well.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace pare {

struct RankPlace {
  int rank = 0;
  int size = 1;
  int local_size = 1;  // processes on this host, as far as is known
  std::string address = "127.0.0.1";
  uint16_t port = 29500;
};

using Environment = std::function<std::optional<std::string>(const char* name)>;

// Error{usage} names a variable that is missing or makes no sense.
RankPlace place_from(const Environment& environment);
RankPlace place_from_environment();  // of this process

}  // namespace pare
