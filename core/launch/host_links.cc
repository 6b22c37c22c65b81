#include "core/launch/host_links.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

namespace ringside {
namespace {

constexpr std::uint32_t established = 1;  // the state TCP_ESTABLISHED

/// A socket for questions to the system about sockets.
class Questions {
 public:
  Questions() : socket_(::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG)) {
    constexpr timeval longest = {.tv_sec = 0, .tv_usec = 100'000};
    if (socket_ >= 0) setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &longest, sizeof longest);
  }
  ~Questions() {
    if (socket_ >= 0) close(socket_);
  }
  Questions(const Questions&) = delete;
  Questions& operator=(const Questions&) = delete;

  /// Asks for all connections over IPv4, with what TCP knows of each.
  bool ask() const {
    struct {
      nlmsghdr header;
      inet_diag_req_v2 asked;
    } message{};
    message.header = {.nlmsg_len = sizeof message,
                      .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                      .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
                      .nlmsg_seq = 1,
                      .nlmsg_pid = 0};
    message.asked.sdiag_family = AF_INET;
    message.asked.sdiag_protocol = IPPROTO_TCP;
    message.asked.idiag_ext = 1U << (INET_DIAG_INFO - 1);
    message.asked.idiag_states = 1U << established;
    return socket_ >= 0 && send(socket_, &message, sizeof message, 0) == sizeof message;
  }
  ssize_t answer(std::span<char> into) const { return recv(socket_, into.data(), into.size(), 0); }

 private:
  int socket_;
};

/// Adds what TCP knows of one connection. Older systems know less.
void add(const rtattr& attribute, LinkFacts& facts) {
  if (attribute.rta_type != INET_DIAG_INFO) return;
  tcp_info info{};
  std::memcpy(&info, RTA_DATA(&attribute),
              std::min<std::size_t>(sizeof info, RTA_PAYLOAD(&attribute)));
  facts.round_trip_s = std::max(facts.round_trip_s, 1e-6 * info.tcpi_rtt);
  facts.segments += info.tcpi_data_segs_in;
}

LinkFacts look(std::uint32_t other) {
  LinkFacts facts;
  const Questions questions;
  if (!questions.ask()) return facts;
  alignas(nlmsghdr) std::array<char, 32 << 10> answer;
  for (;;) {
    ssize_t left = questions.answer(answer);
    if (left <= 0) return facts;
    for (auto* message = reinterpret_cast<nlmsghdr*>(answer.data()); NLMSG_OK(message, left);
         message = NLMSG_NEXT(message, left)) {
      if (message->nlmsg_type != SOCK_DIAG_BY_FAMILY) return facts;  // the end, or an error
      const auto* one = static_cast<const inet_diag_msg*>(NLMSG_DATA(message));
      if (one->id.idiag_dst[0] != other) continue;
      auto length = static_cast<int>(message->nlmsg_len - NLMSG_LENGTH(sizeof *one));
      for (auto* attribute = reinterpret_cast<const rtattr*>(one + 1); RTA_OK(attribute, length);
           attribute = RTA_NEXT(attribute, length))
        add(*attribute, facts);
    }
  }
}

}  // namespace

LookAtLinks links_with(const std::string& address) {
  in_addr other{};
  if (inet_pton(AF_INET, address.c_str(), &other) != 1) return [] { return LinkFacts(); };
  return [other] { return look(other.s_addr); };
}

}  // namespace ringside
