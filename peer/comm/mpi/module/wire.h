// The wire over MPI's messages.
#pragma once

#include <mpi.h>

#include <vector>

#include "peer/comm/mpi/mpi_module.h"

namespace ringside::peer {

/// A lane is a tag. A message longer than a count of MPI can say is several of them.
class MpiWire : public Wire {
 public:
  explicit MpiWire(const MpiRequest& request);
  ~MpiWire() override;
  MpiWire(const MpiWire&) = delete;
  MpiWire& operator=(const MpiWire&) = delete;
  TransferPtr send(int peer, Lane lane, std::span<const std::byte> bytes) override;
  TransferPtr receive(int peer, Lane lane, std::span<std::byte> bytes) override;

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

}  // namespace ringside::peer
