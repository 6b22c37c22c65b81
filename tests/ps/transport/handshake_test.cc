// The errors of a worker that a server does not admit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "ps/transport/zmq/keys.h"
#include "tests/ps/host.h"
#include "tests/support/complaint.h"
#include "tests/support/temporary_folder.h"

namespace ringside::ps {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using testing::complaint;
using ::testing::HasSubstr;
using testing::Host;
using testing::patience_s;
using testing::run;
namespace fs = std::filesystem;

class HandshakeTest : public ::testing::Test {
 protected:
  HandshakeTest() {
    write_keys(folder_, 2);
    write_keys(others_, 2);
  }
  static TransportOptions with_keys(const std::string& folder) {
    return {.transport = TransportKind::tcp,
            .address = "127.0.0.1",
            .keys = folder,
            .timeout_s = patience_s};
  }
  /// The error of worker 1 while it waits for an answer; "nothing" if there is none.
  std::string told(const Host& host, const TransportOptions& options,
                   const ps::Run& its_run = run) {
    return complaint([&] {
      const auto worker = connect_worker(*device_, std::make_shared<ZmqContext>(), its_run, 1,
                                         {host.endpoint()}, options, timeline_);
      worker->send(0, testing::message_of(run.token, Kind::alive, 1, 0));
      worker->receive(patience_s);
    });
  }

  testing::TemporaryFolder temporary_;
  const std::string folder_ = temporary_.path() / "keys", others_ = temporary_.path() / "others";
  std::unique_ptr<Device> device_ = make_cpu_device(1);
  Timeline timeline_{*device_};
};

TEST_F(HandshakeTest, AKeyThatTheServerDoesNotKnowIsNamed) {
  Host host(with_keys(folder_));
  fs::copy(folder_ + "/server.public", others_ + "/server.public",
           fs::copy_options::overwrite_existing);
  EXPECT_EQ(told(host, with_keys(others_)),
            "server 0 at " + host.endpoint() +
                " refused worker 1: the server does not know the key " + others_ +
                "/worker-1.public; give servers and workers the files of the same call of "
                "`ringside keys`");
  EXPECT_EQ(host.decoded(), 0);
}

TEST_F(HandshakeTest, AServerWithAnotherKeyIsNamed) {
  Host host(with_keys(folder_));
  EXPECT_THAT(
      told(host, with_keys(others_)),
      AllOf(HasSubstr("server 0 at " + host.endpoint() + " refused worker 1"),
            HasSubstr("not the key " + others_ + "/server.public"), HasSubstr("`ringside keys`")));
  EXPECT_EQ(host.decoded(), 0);
}

TEST_F(HandshakeTest, KeysOnOneSideAloneAreNamed) {
  TransportOptions without = with_keys("");
  Host with_host(with_keys(folder_)), without_host(without);
  EXPECT_THAT(told(with_host, without),
              AllOf(HasSubstr("refused worker 1"), HasSubstr("the worker has no keys")));
  EXPECT_THAT(told(without_host, with_keys(folder_)),
              AllOf(HasSubstr("refused worker 1"),
                    AnyOf(HasSubstr("the worker has keys"), HasSubstr("has no keys"))));
}

TEST_F(HandshakeTest, ASecretOfAnotherRunIsNamed) {
  TransportOptions options{.transport = TransportKind::tcp, .port_option = "scheme.ps.port"};
  Host host(options);
  EXPECT_THAT(told(host, options, {.token = run.token, .secret = "of yesterday"}),
              AllOf(HasSubstr("server 0 at " + host.endpoint() + " refused worker 1"),
                    HasSubstr("secret of this run"), HasSubstr("set scheme.ps.port")));
}

TEST_F(HandshakeTest, AnAdmittedWorkerIsToldNothing) {
  Host host(with_keys(folder_));
  EXPECT_EQ(told(host, with_keys(folder_)), "nothing");
  EXPECT_EQ(host.heard(1), 1);
}

}  // namespace
}  // namespace ringside::ps
