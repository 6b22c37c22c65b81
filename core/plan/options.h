// The options of a scheme, of whichever it is.
#pragma once

#include <any>
#include <utility>

#include "core/base/error.h"
#include "core/base/fields.h"

namespace ringside {

/// Holds the scheme's own struct: whoever knows the scheme asks for the struct, everybody else sees
/// named fields.
class Options {
 public:
  /// Of no scheme: without fields.
  Options() = default;
  template <HasFields Struct>
  Options(Struct options)
      : value_(std::move(options)),
        fields_([](std::any& value) { return fields_of(std::any_cast<Struct&>(value)); }) {}

  /// Valid until these options are assigned to or end.
  Fields fields() { return fields_ ? fields_(value_) : Fields{}; }
  /// To be read only.
  Fields fields() const { return const_cast<Options&>(*this).fields(); }

  /// Throws Error if they are the options of another scheme.
  template <HasFields Struct>
  const Struct& as() const {
    const auto* options = std::any_cast<Struct>(&value_);
    if (!options) throw Error("these are the options of another scheme; mend who asks for them");
    return *options;
  }

  bool operator==(const Options& other) const {
    return value_.type() == other.value_.type() && equal(fields(), other.fields());
  }

 private:
  std::any value_;
  Fields (*fields_)(std::any& value) = nullptr;
};

}  // namespace ringside
