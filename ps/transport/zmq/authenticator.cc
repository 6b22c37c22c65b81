#include "ps/transport/zmq/authenticator.h"

#include <charconv>
#include <vector>

namespace ringside::ps {
namespace {

constexpr const char* endpoint = "inproc://zeromq.zap.01";
/// A question: version, number, domain, address, routing id, mechanism, credentials.
constexpr std::size_t mechanism_at = 5;

/// Takes a time that does not depend on where the texts differ.
bool same(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  return difference == 0;
}

int number_below(int limit, std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool good = error == std::errc{} && end == text.data() + text.size() && number >= 0;
  return good && number < limit ? number : -1;
}

std::vector<std::string> receive_all(zmq::socket_t& socket) {
  std::vector<std::string> parts;
  zmq::message_t part;
  do {
    if (!socket.recv(part)) return {};
    parts.push_back(part.to_string());
  } while (part.more());
  return parts;
}

}  // namespace

int worker_with(const Admission& admission, std::string_view mechanism,
                const std::vector<std::string>& credentials) {
  if (!admission.keys.empty()) {
    if (mechanism != "CURVE" || credentials.size() != 1) return -1;
    const auto key = admission.keys.find(credentials[0]);
    return key == admission.keys.end() ? -1 : key->second;
  }
  if (mechanism != "PLAIN" || credentials.size() != 2 || admission.secret.empty()) return -1;
  return same(credentials[1], admission.secret) ? number_below(admission.workers, credentials[0])
                                                : -1;
}

Authenticator::Authenticator(zmq::context_t& context, Admission admission)
    : admission_(std::move(admission)) {
  zmq::socket_t socket(context, zmq::socket_type::rep);
  socket.set(zmq::sockopt::linger, 0);
  socket.bind(endpoint);
  thread_ = std::jthread([this, own = std::move(socket)]() mutable { answer(std::move(own)); });
}

void Authenticator::answer(zmq::socket_t socket) const {
  try {
    while (true) {
      const std::vector<std::string> question = receive_all(socket);
      if (question.size() <= mechanism_at) continue;
      const int worker = worker_with(admission_, question[mechanism_at],
                                     {question.begin() + mechanism_at + 1, question.end()});
      const bool admitted = worker >= 0;
      const std::string answer[] = {"1.0",
                                    question[1],
                                    admitted ? "200" : "400",
                                    admitted ? "OK" : "no worker of this run",
                                    admitted ? std::to_string(worker) : "",
                                    ""};
      for (const std::string& part : answer)
        socket.send(zmq::buffer(part), &part == std::end(answer) - 1 ? zmq::send_flags::none
                                                                     : zmq::send_flags::sndmore);
    }
  } catch (const zmq::error_t&) {  // the context ends
  }
}

}  // namespace ringside::ps
