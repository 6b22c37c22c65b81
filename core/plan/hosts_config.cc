#include "core/plan/hosts_config.h"

namespace ringside {

Fields fields_of(HostsConfig& config) {
  return {
      {"workers", &config.workers,
       "where the workers of a job on several hosts go: 'fill' fills a host before the next one "
       "gets workers, 'spread' gives all hosts equally many"},
      {"servers", &config.servers,
       "where dedicated servers of such a job go: in turn to 'all' hosts, or 'apart', to hosts "
       "without workers"},
      {"between", &config.between,
       "the library by which collectives go between hosts; within a host they go through "
       "shared memory"}};
}

}  // namespace ringside
