// The two ends of channels through shared memory.
#pragma once

#include <memory>

#include "core/observe/timeline.h"
#include "ps/protocol/transport.h"
#include "ps/transport/shm/in_process_queue.h"
#include "ps/transport/shm/shared_region.h"

namespace ringside::ps {

/// Makes a server's end. `worker` is the worker of the same rank, whose messages go through
/// `inside`; -1: none.
std::unique_ptr<Channel> open_server(Device& device, std::shared_ptr<SharedRegion> region,
                                     int server, int worker,
                                     std::shared_ptr<InProcessQueues> inside,
                                     const TransportOptions& options);

/// Makes a worker's end. `server` is the server of the same rank, whose messages go through
/// `inside`; -1: none. The timeline gets the time in which a send blocks, as Activity::exposed.
std::unique_ptr<Channel> connect_worker(Device& device, std::shared_ptr<SharedRegion> region,
                                        int worker, int server,
                                        std::shared_ptr<InProcessQueues> inside,
                                        const TransportOptions& options, Timeline& timeline);

}  // namespace ringside::ps
