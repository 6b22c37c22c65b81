#include "experiments/tools/cli/cli_options.h"

#include <CLI/CLI.hpp>

#include "core/base/error.h"

namespace ringside::tools::cli {

Option& Option::type(const std::string& name) {
  option_->type_name(name);
  return *this;
}

Option& Option::shows_default() {
  option_->capture_default_str();
  return *this;
}

Option& Option::required() {
  option_->required();
  return *this;
}

Option& Option::list() {
  option_->delimiter(',')->allow_extra_args(false);
  return *this;
}

Option& Option::commas() {
  option_->delimiter(',');
  return *this;
}

Option& Option::one_word() {
  option_->allow_extra_args(false);
  return *this;
}

Option& Option::sizes() {
  option_->transform(CLI::AsSizeValue(false));
  return *this;
}

template <class Number>
Option& Option::between(Number least, Number most) {
  option_->check(CLI::Range(least, most));
  return *this;
}
template Option& Option::between(int, int);
template Option& Option::between(std::int64_t, std::int64_t);
template Option& Option::between(double, double);

Option& Option::positive() {
  option_->check(CLI::PositiveNumber);
  return *this;
}

Option& Option::not_negative() {
  option_->check(CLI::NonNegativeNumber);
  return *this;
}

Option& Option::needs(Option other) {
  option_->needs(other.option_);
  return *this;
}

Option& Option::excludes(Option other) {
  option_->excludes(other.option_);
  return *this;
}

void CommandOptions::summary(const std::string& text) { command_.description(text); }

void CommandOptions::footer(const std::string& text) { command_.footer(text); }

void CommandOptions::hide() { command_.group(""); }

template <class Value>
Option CommandOptions::add(const std::string& name, Value& value, const std::string& text) {
  return Option(command_.add_option(name, value, text));
}
template Option CommandOptions::add(const std::string&, std::string&, const std::string&);
template Option CommandOptions::add(const std::string&, int&, const std::string&);
template Option CommandOptions::add(const std::string&, std::int64_t&, const std::string&);
template Option CommandOptions::add(const std::string&, std::size_t&, const std::string&);
template Option CommandOptions::add(const std::string&, double&, const std::string&);
template Option CommandOptions::add(const std::string&, std::vector<std::string>&,
                                    const std::string&);
template Option CommandOptions::add(const std::string&, std::vector<int>&, const std::string&);
template Option CommandOptions::add(const std::string&, std::vector<std::int64_t>&,
                                    const std::string&);

Option CommandOptions::flag(const std::string& name, bool& value, const std::string& text) {
  return Option(command_.add_flag(name, value, text));
}

Option CommandOptions::clearing_flag(const std::string& name, bool& value,
                                     const std::string& text) {
  return Option(command_.add_flag_callback(
      name, [&value] { value = false; }, text));
}

Option CommandOptions::parsed(const std::string& name,
                              std::function<std::string(const std::string&)> take,
                              const std::string& text) {
  return Option(command_.add_option_function<std::string>(
      name,
      [name, take = std::move(take)](const std::string& value) {
        const std::string wrong = take(value);
        if (!wrong.empty()) throw CLI::ValidationError(name, wrong);
      },
      text));
}

void CommandOptions::take_rest(std::vector<std::string>& words) {
  command_.prefix_command();
  rest_ = &words;
}

bool CommandOptions::was_asked_for() const { return command_.parsed(); }

void CommandOptions::check_no_option_is_empty() const {
  for (const CLI::Option* option : command_.get_options())
    for (const std::string& value : option->results())
      if (option->nonpositional() && value.empty())
        throw Error("{}: the text is empty; give {}, or leave the option out", option->get_name(),
                    option->get_type_name().empty() ? "a value" : option->get_type_name());
}

void CommandOptions::finish() const {
  if (rest_) *rest_ = command_.remaining();
}

}  // namespace ringside::tools::cli
