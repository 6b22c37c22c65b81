#include "experiments/runner/registry/registry.h"

namespace ringside::runner {

const std::vector<MessageRow>& message_rows() {
  static const std::vector<MessageRow> rows = {
      {"cluster", "as the cluster file says, in its table [message]", {}},
      // Unary calls with one field of bytes over TCP within a host, on 2 cores of an EPYC with
      // AVX-512: a call of 64 bytes and its answer take 54 to 74 us. Of 16 MB the sender's
      // processors take 3.7 to 4.7 ms and the receiver's 2.8 to 3.4; their way takes twice as long
      // as ZeroMQ's.
      {"grpc", "gRPC 1.51, which copies values into its messages and out of them",
       sim::MessageSpec{
           .send_us = 12, .receive_us = 20, .send_us_per_mb = 262, .receive_us_per_mb = 195}},
  };
  return rows;
}

}  // namespace ringside::runner
