// What C++ knows about an actor's exceptions.
#pragma once

#include <cxxabi.h>

#include <utility>

namespace ringside::sim {

/// Actors share a thread, and with it what the C++ runtime knows about exceptions that are on their
/// way or being handled. Where an actor may let others run (in a destructor or a handler, too), one
/// of these keeps the actor's own.
class ExceptionState {
 public:
  ExceptionState() : own_(std::exchange(of_thread(), {})) {}
  ~ExceptionState() {
    State& now = of_thread();
    // What was thrown meanwhile (SimGrid ends services so) counts.
    now = {own_.caught, own_.uncaught + now.uncaught};
  }
  ExceptionState(const ExceptionState&) = delete;
  ExceptionState& operator=(const ExceptionState&) = delete;

 private:
  struct State {  // as the Itanium C++ ABI has it
    void* caught = nullptr;
    unsigned uncaught = 0;
  };
  static State& of_thread() { return *reinterpret_cast<State*>(abi::__cxa_get_globals()); }

  State own_;
};

}  // namespace ringside::sim
