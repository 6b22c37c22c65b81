#include "ps/protocol/greeting.h"

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "ps/protocol/archive.h"

namespace ringside::ps {

std::string greeting_of(const RunPlan& plan, std::string_view program) {
  const nlohmann::ordered_json all = to_json(plan);
  nlohmann::ordered_json agreed;
  for (const char* key :
       {"world", "servers", "scheme", "options", "model", "data", "train", "optimizer"})
    agreed[key] = all.at(key);
  for (const char* key : {"port", "address", "advertise", "keys"}) agreed["options"].erase(key);
  for (const char* key : {"initial_weights", "timeout_s"}) agreed["train"].erase(key);
  agreed["data"].erase("path");
  const std::string text = agreed.dump();
  Hash hash;
  hash.update(std::as_bytes(std::span(text)));
  const std::string commit = program.empty() ? "" : fmt::format("commit {}, ", program);
  return fmt::format("protocol {}, {}configuration {}", protocol_version, commit, hash.digest());
}

Greetings::Greetings(int server, int workers, std::string own)
    : server_(server), own_(std::move(own)), greeted_(static_cast<std::size_t>(workers)) {}

std::string Greetings::refusal(int worker, const Header& header) {
  if (worker < 0 || static_cast<std::size_t>(worker) >= greeted_.size())
    return fmt::format("worker {} is no worker of this run", worker);
  const auto w = static_cast<std::size_t>(worker);
  if (header.kind != Kind::hello)
    return greeted_[w] ? "" : fmt::format("worker {} has not greeted this server", worker);
  if (greeted_[w]) return fmt::format("worker {} has greeted this server before", worker);
  if (header.worker != worker)
    return fmt::format("worker {} greeted in the name of worker {}", worker, header.worker);
  if (header.text != own_)
    throw Error(
        "server {} refuses worker {}: the worker has {}, but the server has {}; start all ranks "
        "with the same program, model and plan",
        server_, worker, header.text, own_);
  greeted_[w] = true;
  return "";
}

}  // namespace ringside::ps
