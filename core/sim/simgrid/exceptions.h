// Keeps the C++ runtime's state of exceptions apart for each actor.
#pragma once

#include <cxxabi.h>

#include <utility>

namespace ringside::sim {

/// All actors run on one thread and so share what the C++ runtime knows about exceptions that are
/// being thrown or handled. Wherever an actor may let others run, also in a destructor or a
/// handler, an object of this class saves the actor's state; its destructor restores that state.
class ExceptionState {
 public:
  ExceptionState() : own_(std::exchange(of_thread(), {})) {}
  ~ExceptionState() {
    State& now = of_thread();
    // SimGrid ends a waiting service by an exception. If such an exception is leaving this scope,
    // the actor has one more uncaught exception than it had before.
    now = {own_.caught, own_.uncaught + now.uncaught};
  }
  ExceptionState(const ExceptionState&) = delete;
  ExceptionState& operator=(const ExceptionState&) = delete;

 private:
  struct State {  // the layout of the Itanium C++ ABI
    void* caught = nullptr;
    unsigned uncaught = 0;
  };
  static State& of_thread() { return *reinterpret_cast<State*>(abi::__cxa_get_globals()); }

  State own_;
};

}  // namespace ringside::sim
