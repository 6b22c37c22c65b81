// Engine: SimGrid itself, with the settings that it runs under.
#pragma once

#include <memory>
#include <simgrid/s4u.hpp>

namespace ringside::sim {

/// SimGrid's engine, of which a process has one at a time.
class Engine {
 public:
  /// Throws Error if there is another.
  Engine() : engine_(start()) {}
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  bool over() const { return over_; }
  /// Throws Error when called again.
  void run();

 private:
  static std::unique_ptr<simgrid::s4u::Engine> start();

  std::unique_ptr<simgrid::s4u::Engine> engine_;
  bool over_ = false;
};

}  // namespace ringside::sim
