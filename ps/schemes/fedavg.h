// Federated averaging over servers.
#pragma once

#include "core/scheme/scheme_info.h"
#include "ps/schemes/local_servers.h"

namespace ringside::ps {

struct FedAvgOptions {
  std::int64_t sync_every = 5;
  double client_fraction = 1;
  double outer_lr = 1;
  double outer_momentum = 0;
  LocalServers servers{};
};

Fields fields_of(FedAvgOptions& options);
/// Throws Error for option values that are not allowed, and for a plan that they do not go with.
void check(const FedAvgOptions& options, const RunPlan& plan);

/// The clients, in order, that take part in a round: max(1, C * N rounded) of N workers, drawn by
/// (seed, round) alone, so that every rank knows them without a message.
std::vector<int> clients_of_round(const FedAvgOptions& options, std::int64_t seed, int workers,
                                  std::int64_t round);

/// FedAvg (McMahan et al., AISTATS 2017, algorithm 1). The run's steps are rounds of `sync_every`
/// local steps; the last one may be shorter. In a round the clients that are drawn begin with the
/// servers' values x, take the round's steps on their own samples, and push what x has become.
/// Their mean, weighted by their numbers of samples (train.shares), is the next x. (The sum of
/// weights is that of the clients of the round.) A client that is not drawn computes nothing; the
/// loss of a step is that of the others. What a client pushes is the difference d from x, and the
/// servers make x -= outer_lr * d, with Nesterov's momentum if `outer_momentum` is not 0 (server
/// optimizers: Reddi et al., ICLR 2021). A client's own optimizer, [optimizer], keeps its moments
/// from one of its rounds to its next.
///
/// With parameters of P bytes in fp32, m clients in a round and S servers, in each round a client
/// sends P bytes and a server m * P / S bytes.
SchemeInfo fedavg_info();

}  // namespace ringside::ps
