// Options of a scheme or a model, whichever it is.
#pragma once

#include <any>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/fields.h"

namespace ringside {

/// Holds a struct of options that a scheme or a kind of model has for itself. Code that knows the
/// scheme or model asks for the struct; all other code sees named fields.
class Options {
 public:
  /// No options, without fields.
  Options() = default;
  template <HasFields Struct>
  Options(Struct options)
      : value_(std::move(options)),
        fields_([](std::any& value) { return fields_of(std::any_cast<Struct&>(value)); }) {}

  /// The fields are valid until these options are assigned to or destroyed.
  Fields fields() { return fields_ ? fields_(value_) : Fields{}; }
  /// The same fields, only to be read.
  Fields fields() const { return const_cast<Options&>(*this).fields(); }

  /// Throws Error if these are the options of another scheme.
  template <HasFields Struct>
  const Struct& as() const {
    const auto* options = std::any_cast<Struct>(&value_);
    if (!options)
      throw Error("these are the options of another scheme; mend the code that asks for them");
    return *options;
  }

  /// The struct, which belongs to these options; null if they are those of another scheme or model.
  template <HasFields Struct>
  Struct* get_if() {
    return std::any_cast<Struct>(&value_);
  }
  template <HasFields Struct>
  const Struct* get_if() const {
    return std::any_cast<Struct>(&value_);
  }

  bool operator==(const Options& other) const {
    return value_.type() == other.value_.type() && equal(fields(), other.fields());
  }

 private:
  std::any value_;
  Fields (*fields_)(std::any& value) = nullptr;
};

/// The struct of this type among the options of several rows. Throws Error if none has it.
template <HasFields Own>
const Own& own_of(const std::vector<Options>& of_rows) {
  for (const Options& options : of_rows)
    if (const Own* found = options.get_if<Own>()) return *found;
  throw Error("no row has these options; mend the code that asks for them");
}

}  // namespace ringside
