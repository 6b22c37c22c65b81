// The options of one command, as the command declares them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace ringside::tools::cli {

/// A declared option, to add details to it.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  /// The word that stands for the value in the help, as in "DIR".
  Option& type(const std::string& name);
  /// Shows the value that the variable has now in the help.
  Option& shows_default();
  Option& required();
  /// Takes a list with commas, as in "1,2", in place of several words.
  Option& list();
  /// Separates values by commas too, and still takes several words.
  Option& commas();
  /// Takes one word each time it is given.
  Option& one_word();
  /// Takes sizes with units, as in 4KB, of 1024 bytes.
  Option& sizes();
  template <class Number>
  Option& between(Number least, Number most);
  Option& positive();
  Option& not_negative();
  Option& needs(Option other);
  Option& excludes(Option other);

 private:
  CLI::Option* option_;
};

/// The declarations of one command. Values are written into the command's variables while the
/// command line is read, so the variables must live until then.
class CommandOptions {
 public:
  explicit CommandOptions(CLI::App& command) : command_(command) {}

  /// One sentence for the help, and the lines below the options there.
  void summary(const std::string& text);
  void footer(const std::string& text);
  /// Leaves the command out of the help: other processes start it.
  void hide();
  /// Makes the program print first which cores its ranks may use, if the environment limits them.
  void uses_cores() { uses_cores_ = true; }

  /// Declares an option whose name begins with "--", or an argument by its place. `Value` is a
  /// text, a number, or a vector of them.
  template <class Value>
  Option add(const std::string& name, Value& value, const std::string& text = "");
  /// Declares an option without a value, which sets or clears `value`.
  Option flag(const std::string& name, bool& value, const std::string& text);
  Option clearing_flag(const std::string& name, bool& value, const std::string& text);
  /// Declares an option whose text `take` reads. `take` returns an error, or an empty text.
  Option parsed(const std::string& name, std::function<std::string(const std::string&)> take,
                const std::string& text);
  /// Takes all words after the declared arguments as they are, options too.
  void take_rest(std::vector<std::string>& words);

  // ---- for the command line, once it was read

  bool was_asked_for() const;
  bool depends_on_cores() const { return uses_cores_; }
  /// Throws Error that names an option which was given an empty text, as an unset variable of a
  /// script leaves it. For paths and names, where an empty text would mean something else than the
  /// user wrote.
  void check_no_option_is_empty() const;
  /// Fills the words of take_rest().
  void finish() const;

 private:
  CLI::App& command_;
  bool uses_cores_ = false;
  std::vector<std::string>* rest_ = nullptr;
};

}  // namespace ringside::tools::cli
