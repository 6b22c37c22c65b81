#include "core/base/json_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

namespace ringside {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;

/// One end of a pair of sockets, whose other end sends text.
class JsonLineTest : public ::testing::Test {
 protected:
  JsonLineTest() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    line_ = std::make_unique<JsonLine>(ends[0], 8);
    other_ = ends[1];
  }
  ~JsonLineTest() override { close(other_); }
  std::optional<std::vector<nlohmann::json>> receive(const std::string& text) {
    EXPECT_EQ(write(other_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    return line_->receive();
  }

  std::unique_ptr<JsonLine> line_;
  int other_ = -1;
};

TEST_F(JsonLineTest, LinesMayComeInParts) {
  EXPECT_THAT(receive("[1, "), Optional(IsEmpty()));
  EXPECT_THAT(receive("2]\n3\n"), Optional(ElementsAre(nlohmann::json{1, 2}, 3)));
  EXPECT_THAT(receive("\"123456\"\n"), Optional(ElementsAre("123456"))) << "as long as allowed";
}

TEST_F(JsonLineTest, ALineThatIsTooLongEndsTheStreamAfterThoseBefore) {
  EXPECT_THAT(receive("1\n2\n\"1234567\"\n3\n"), Optional(ElementsAre(1, 2)));
  EXPECT_EQ(receive("4\n"), std::nullopt);
}

TEST_F(JsonLineTest, ALineThatIsTooLongAndHasNoEndYetEndsTheStream) {
  EXPECT_THAT(receive("1\n\"12345678"), Optional(ElementsAre(1)));
  EXPECT_EQ(receive("\"\n2\n"), std::nullopt);
}

}  // namespace
}  // namespace ringside
