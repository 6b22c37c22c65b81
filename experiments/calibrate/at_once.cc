#include "experiments/calibrate/at_once.h"

#include <exception>
#include <thread>
#include <vector>

namespace ringside {

void at_once(int ranks, const std::function<void(int rank, std::barrier<>& together)>& body) {
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(ranks));
  std::barrier<> together(ranks);
  {
    std::vector<std::jthread> threads;
    threads.reserve(failures.size());
    // Who cannot be started is waited for by nobody.
    struct Rest {
      std::barrier<>& together;
      std::size_t count;
      ~Rest() {
        while (count-- > 0) together.arrive_and_drop();
      }
    } rest{together, failures.size()};
    for (std::size_t r = 0; r < failures.size(); ++r, --rest.count)
      threads.emplace_back([&, r] {
        try {
          body(static_cast<int>(r), together);
        } catch (...) {
          failures[r] = std::current_exception();
        }
        together.arrive_and_drop();  // whoever still computes does not wait for this rank
      });
  }
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

}  // namespace ringside
