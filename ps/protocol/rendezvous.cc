#include "ps/protocol/rendezvous.h"

#include <fmt/format.h>

#include <charconv>
#include <random>

namespace ringside::ps {

std::string endpoint_key(int server) { return fmt::format("ps.server.{}", server); }

std::string endpoint_key(int server, int worker, std::int64_t process) {
  if (process == 0) return endpoint_key(server);
  return fmt::format("ps.server.{}/worker.{}/{}", server, worker, process);
}

std::string draw_token() {
  std::random_device random;
  return fmt::format("{:016x}", (std::uint64_t{random()} << 32) | random());
}

std::uint64_t shared_token(Store& store, double timeout_s) {
  const std::string text = store.get(token_key, timeout_s);
  std::uint64_t token = 0;
  std::from_chars(text.data(), text.data() + text.size(), token, 16);
  return token;
}

}  // namespace ringside::ps
