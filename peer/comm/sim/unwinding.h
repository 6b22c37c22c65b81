// Unwinding: a test whether an exception destroys an object.
#pragma once

#include <exception>

namespace ringside::peer {

/// A member by which a destructor learns whether an exception destroys its object: more exceptions
/// are under way in the destructor than when the object was made. A destructor that an exception
/// called must not call the world, for two reasons. The world itself may have thrown the exception,
/// to end the actor. And the call may let another actor run. All actors share one thread, and
/// std::uncaught_exceptions() counts the exceptions of the thread, so the other actor would take
/// this exception for its own.
class Unwinding {
 public:
  bool now() const { return std::uncaught_exceptions() > before_; }

 private:
  int before_ = std::uncaught_exceptions();
};

}  // namespace ringside::peer
