// The wire over MPI's messages.
#pragma once

#include <mpi.h>

#include <atomic>
#include <vector>

#include "peer/comm/mpi/mpi_module.h"

namespace ringside::peer {

/// A lane is a tag of MPI. Messages and all-reduces longer than MPI's largest count (an int) are
/// cut into several.
class MpiWire : public Wire {
 public:
  explicit MpiWire(const MpiRequest& request);
  ~MpiWire() override;
  MpiWire(const MpiWire&) = delete;
  MpiWire& operator=(const MpiWire&) = delete;
  TransferPtr send(int peer, Lane lane, std::span<const std::byte> bytes) override;
  TransferPtr receive(int peer, Lane lane, std::span<std::byte> bytes) override;
  TransferPtr all_reduce(DType dtype, std::span<std::byte> array) override;

 private:
  /// The sum of a type that MPI lacks (bf16, fp16), as an operation of MPI.
  struct HalfSum {
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_Op op = MPI_OP_NULL;
  };
  HalfSum& half_sum(DType dtype);

  MPI_Comm comm_ = MPI_COMM_NULL;
  HalfSum bf16_, f16_;                  // made by the first all-reduce of each type
  std::atomic<bool> sum_stays_{false};  // an all-reduce was dropped before it was over
};

}  // namespace ringside::peer
