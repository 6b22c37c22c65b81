// Configuration of a published model as Hugging Face keeps it: an object of a config.json.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/models/model_config.h"

namespace ringside {

/// A [model], and where a file states the keys that decide what the model computes. Keys that the
/// file says nothing about have their defaults in `model`.
struct StatedModel {
  /// One key of [model], and the file's key and value, as in "text_config.hidden_size" = "2048".
  struct Key {
    std::string ours, theirs, value;
  };
  std::string file;
  ModelConfig model;
  std::vector<Key> keys;  // "kind" is the first
};

/// Reads an object of a config.json into the keys of [model]. Where the object lacks a key or has
/// null, `otherwise` is the value of Hugging Face's class. Each member throws Error that names the
/// file, the key and its value if the model cannot have this value.
class PublishedConfig {
 public:
  using Json = nlohmann::json;
  /// Values are written to `out`, which must outlive this object. `name` precedes the names of keys
  /// in messages: "text_config." within the file, empty for the whole file.
  PublishedConfig(StatedModel& out, Json object, std::string name = "");

  Json value(const std::string& key, const Json& otherwise) const;
  /// The object under a key; empty if there is none.
  PublishedConfig object(const std::string& key) const;
  bool empty() const { return object_.empty(); }
  bool has(const std::string& key) const { return object_.contains(key); }

  /// Each sets a field of [model], whose key is `ours`.
  void take_size(const std::string& key, std::string_view ours, std::int64_t& field,
                 std::int64_t otherwise) const;
  void take_number(const std::string& key, std::string_view ours, double& field,
                   double otherwise) const;
  void take_flag(const std::string& key, std::string_view ours, bool& field, bool otherwise) const;
  void take_activation(const std::string& key, std::string_view otherwise) const;

  /// Refuses every value but one.
  void want(const std::string& key, const Json& wanted, const Json& otherwise) const;
  void want(const std::string& key, const Json& wanted) const { want(key, wanted, wanted); }
  /// Refuses every value but null.
  void want_none(const std::string& key) const { want(key, nullptr); }

  /// The [model] that is read so far.
  ModelConfig& model() const { return out_.model; }
  /// Notes that the value `found` of `key` states the key `ours` of [model].
  void state(const std::string& key, std::string_view ours, const Json& found) const;
  [[noreturn]] void refuse(const std::string& key, const Json& found, std::string_view why) const;

 private:
  StatedModel& out_;
  Json object_;
  std::string name_;
};

/// The activation that Hugging Face calls by this name; none for another name.
std::optional<ModelActivation> activation_named(const nlohmann::json& name);

}  // namespace ringside
