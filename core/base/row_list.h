// RowList: the things of one kind that this program has, such as its schemes, with a row each.
#pragma once

#include <atomic>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ringside {

// Errors of lists of rows; defined in row_list.cc.
[[noreturn]] void no_such_row(std::string_view what, std::string_view name,
                              const std::vector<std::string>& known, bool takes_plugins);
[[noreturn]] void row_too_late(std::string_view what, std::string_view name);
[[noreturn]] void row_twice(std::string_view what, std::string_view name);

/// The row of that name. Throws Error that tells the most similar name and all names if there is
/// none, and with `takes_plugins` also that plug-ins have others. `what` names one of them:
/// "scheme".
template <class Row>
const Row& find_row(const std::vector<Row>& rows, std::string_view what, std::string_view name,
                    bool takes_plugins = false) {
  std::vector<std::string> known;
  for (const Row& row : rows) {
    if (row.name == name) return row;
    known.emplace_back(row.name);
  }
  no_such_row(what, name, known, takes_plugins);
}

/// Rows that have a member `name`: those of the program, and those that plug-ins add while the
/// program starts. The first look at the rows closes the list, so a list never changes under its
/// readers. For one thread until then; afterwards any thread may read.
template <class Row>
class RowList {
 public:
  RowList(std::string_view what, std::vector<Row> rows) : what_(what), rows_(std::move(rows)) {}

  /// Throws Error if there is a row of this name, and for a list that is closed.
  void add(Row row) {
    if (closed_) row_too_late(what_, row.name);
    for (const Row& one : rows_)
      if (one.name == row.name) row_twice(what_, row.name);
    rows_.push_back(std::move(row));
  }

  const std::vector<Row>& rows() {
    closed_ = true;
    return rows_;
  }
  /// Throws Error as find_row() does.
  const Row& find(std::string_view name) { return find_row(rows(), what_, name, true); }

 private:
  std::string_view what_;
  std::vector<Row> rows_;
  std::atomic<bool> closed_ = false;  // the threads of several ranks close it alike
};

}  // namespace ringside
