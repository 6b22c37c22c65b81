// TOML files as flat lists of values, each with its line in the file.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/fields.h"

namespace ringside::runner {

/// Data that a TOML file may hold; dates are refused. Copies are cheap.
class TomlData {
 public:
  explicit TomlData(nlohmann::json data);

  bool is_table() const;
  bool is_list() const;
  /// The members of a table, in the order of their names; data that are no table have none.
  std::vector<std::pair<std::string, TomlData>> members() const;
  /// The elements of a list; data that are no list count as a list of one element.
  std::vector<TomlData> elements() const;
  /// The text with which TOML writes the data on one line.
  std::string text() const;
  /// Puts the data into `out`, which is a single value (is_single()). If the data have another
  /// type, returns false and changes nothing. A double takes integers too, and must be finite. A
  /// list of numbers or strings may be given as one element. An enum takes one of its names.
  bool put(const FieldValue& out) const;
  /// Does the same, but if the data have another type, throws Error that begins with `place`:
  /// "PLACE: KEY must be an integer, but 1.5 is a number with a fraction".
  void put(const FieldValue& out, const std::string& place, const std::string& key) const;
  /// Puts the data into a field, and throws Error that begins with `place` also for a number that
  /// is not in the field's range.
  void put(const Field& field, const std::string& place, const std::string& key) const;
  /// Throws Error: "PLACE: KEY must be WANTED, but ...".
  [[noreturn]] void refuse(std::string_view wanted, const std::string& place,
                           const std::string& key) const;

 private:
  std::shared_ptr<const nlohmann::json> data_;
};

struct TomlElement;

/// One value of a file: [scheme.ps] servers = 2 has the path {"scheme", "ps", "servers"}. An empty
/// table is a value too.
struct TomlValue {
  std::vector<std::string> path;
  TomlData data;
  std::string place;  // "file.toml:12"
  std::string table;  // where the value's table begins
  /// The tables of a list of tables, as [[compare.case]] begins one; empty for all other data.
  std::vector<TomlElement> elements;
};

/// One table of a list of tables; the paths of its values begin within the table.
struct TomlElement {
  std::string place;
  std::vector<TomlValue> values;
};

/// Puts a value of a table [[name]] into the field that its key names. Throws Error that names the
/// place for a key without a field, with the nearest one, and for a value of another type.
void put(const TomlValue& one, const Fields& fields, std::string_view table);

/// The values in the order of the file. If the file is not valid TOML, throws Error that names the
/// file and the line.
std::vector<TomlValue> read_toml(const std::filesystem::path& file);

/// The value after the "=" of "--set key=value". Text that is not a TOML value, such as `ddp`, is
/// taken as a string. Throws Error that begins with `place` if such text is empty or has quotes,
/// brackets, braces or line ends, and if a value within a list or table is a date or time.
TomlData toml_data(const std::string& text, const std::string& place);

/// The text with which TOML writes a value on one line, and the text with which it writes a name in
/// a key or in the head of a table.
std::string toml_text(const FieldValue& value);
std::string toml_key(const std::string& name);

}  // namespace ringside::runner
