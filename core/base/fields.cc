#include "core/base/fields.h"

#include <algorithm>
#include <type_traits>

namespace ringside {
namespace {

bool equal(const Choice& a, const Choice& b) { return a.name() == b.name(); }

bool equal(const NumberOrName& a, const NumberOrName& b) {
  return equal(a.name, b.name) && (!a.is_number() || *a.number == *b.number);
}

bool equal(const ListOrName& a, const ListOrName& b) {
  return equal(a.name, b.name) && *a.list == *b.list;
}

bool equal(const Structs& a, const Structs& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!equal(a[i], b[i])) return false;
  return true;
}

bool equal(const FieldValue& a, const FieldValue& b);

bool equal(const Table& a, const Table& b) {
  const std::vector<std::string> names = a.names();
  return names == b.names() &&
         std::all_of(names.begin(), names.end(),
                     [&](const std::string& name) { return equal(a[name], b[name]); });
}

bool equal(const FieldValue& a, const FieldValue& b) {
  return std::visit(
      []<class A, class B>(const A& x, const B& y) {
        if constexpr (!std::is_same_v<A, B>)
          return false;
        else if constexpr (std::is_pointer_v<A>)
          return *x == *y;
        else
          return equal(x, y);
      },
      a, b);
}

}  // namespace

Fields Structs::operator[](std::size_t i) const { return at_(structs_, i); }

FieldValue Table::operator[](const std::string& name) const {
  FieldValue value;
  at_(values_, name, value);
  return value;
}

bool is_single(const FieldValue& value) {
  return !std::holds_alternative<Fields>(value) && !std::holds_alternative<Structs>(value) &&
         !std::holds_alternative<Table>(value);
}

bool equal(const Fields& a, const Fields& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Field& x, const Field& y) {
    return x.name == y.name && equal(x.value, y.value);
  });
}

}  // namespace ringside
