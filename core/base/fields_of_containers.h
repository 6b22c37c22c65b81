// The definitions by which Structs and Table reach into their containers. Only fields.h includes
// them, at its end.
#pragma once

#include "core/base/fields.h"

namespace ringside {

template <HasFields Struct>
Structs::Structs(std::vector<Struct>* structs)
    : structs_(structs),
      is_list_(true),
      size_([](const void* kept) { return static_cast<const std::vector<Struct>*>(kept)->size(); }),
      resize_([](void* kept, std::size_t size) {
        static_cast<std::vector<Struct>*>(kept)->resize(size);
      }),
      at_([](void* kept, std::size_t i) {
        return fields_of((*static_cast<std::vector<Struct>*>(kept))[i]);
      }) {}

template <HasFields Struct>
Structs::Structs(std::optional<Struct>* structs)
    : structs_(structs),
      is_list_(false),
      size_([](const void* kept) -> std::size_t {
        return *static_cast<const std::optional<Struct>*>(kept) ? 1 : 0;
      }),
      resize_([](void* kept, std::size_t size) {
        auto& one = *static_cast<std::optional<Struct>*>(kept);
        if (size == 0) one.reset();
        if (size > 0 && !one) one.emplace();
      }),
      at_([](void* kept, std::size_t) {
        return fields_of(**static_cast<std::optional<Struct>*>(kept));
      }) {}

template <class Value>
Table::Table(std::map<std::string, Value>* values)
    : values_(values),
      names_([](const void* kept) {
        std::vector<std::string> names;
        for (const auto& [name, value] : *static_cast<const std::map<std::string, Value>*>(kept))
          names.push_back(name);
        return names;
      }),
      clear_([](void* kept) { static_cast<std::map<std::string, Value>*>(kept)->clear(); }),
      at_([](void* kept, const std::string& name, FieldValue& out) {
        out = field_value((*static_cast<std::map<std::string, Value>*>(kept))[name]);
      }) {}

}  // namespace ringside
