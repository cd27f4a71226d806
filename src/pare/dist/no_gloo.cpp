// Stands for gloo.cpp where Gloo's headers are missing.
#include "pare/dist/process_group.h"
#include "pare/dist/store.h"
#include "pare/error.h"

namespace pare {

namespace {

Error without_gloo() {
  return {ErrorKind::usage, "WORLD_SIZE", "this pare was built without Gloo and works in one process"};
}

}  // namespace

TcpStore serve_store(const RankPlace&) { throw without_gloo(); }
std::unique_ptr<Store> connect_store(const RankPlace&) { throw without_gloo(); }
std::unique_ptr<ProcessGroup> join_by_gloo(const RankPlace&) { throw without_gloo(); }

}  // namespace pare
