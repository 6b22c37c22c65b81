#include "core/base/whole_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <memory>

#include "core/base/error.h"
#include "tests/support/complaint.h"
#include "tests/support/temporary_folder.h"

namespace ringside {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class WholeFileTest : public ::testing::Test {
 protected:
  fs::path path(const std::string& name) const { return folder_.path() / name; }
  OpenFolder opened() const { return OpenFolder(folder_.path()); }
  std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()));
  }
  static std::span<const std::byte> bytes(std::string_view text) {
    return std::as_bytes(std::span(text));
  }
  testing::TemporaryFolder folder_;
};

TEST_F(WholeFileTest, ReplacesAFileAtTheEndAndKeepsItsMode) {
  folder_.write("a", "old");
  fs::permissions(path("a"), fs::perms::owner_read | fs::perms::owner_write);
  WholeFile file(path("a"));
  file.write(bytes("ew"), 1);
  file.write(bytes("n"), 0);
  EXPECT_EQ(folder_.read("a"), "old");
  file.publish();
  EXPECT_EQ(folder_.read("a"), "new");
  EXPECT_EQ(fs::status(path("a")).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(files(), 1u);
}

/// Memory of a MiB and more whose first byte lies where writes past the cache want it; `shift`
/// moves it away from there.
TEST_F(WholeFileTest, LargePartsAreInTheirPlacesWhereverTheyLie) {
  constexpr std::size_t large = std::size_t{3} << 20;
  const std::unique_ptr<char, void (*)(void*)> memory(
      static_cast<char*>(std::aligned_alloc(uncached_block, 2 * large)), std::free);
  for (std::size_t i = 0; i < 2 * large; ++i) memory.get()[i] = static_cast<char>(i * 7 % 251);
  for (const std::size_t shift : {0, 1})
    for (const std::size_t offset : {std::size_t{0}, uncached_block, std::size_t{3}})
      for (const std::size_t size : {large, large + 5, large - 4096, std::size_t{5000}}) {
        const std::string_view part(memory.get() + shift, size);
        WholeFile file(path("a"));
        file.write(bytes("before"), 0);
        file.write(bytes(part), offset);
        file.write(bytes("after"), offset + size);
        file.publish();
        std::string expected = "before" + std::string(offset, '\0');
        expected.resize(offset);
        expected += std::string(part) + "after";
        EXPECT_EQ(folder_.read("a") == expected, true) << shift << " " << offset << " " << size;
      }
}

TEST_F(WholeFileTest, AUsersNameOfALinkOrOfNoFileIsRefused) {
  folder_.write("a", "old");
  fs::create_symlink("a", path("link"));
  fs::create_symlink("absent", path("dangling"));
  for (const char* link : {"link", "dangling"})
    EXPECT_THAT(testing::complaint([&] { write_whole(path(link), "new"); }),
                HasSubstr("this is a link, and nothing is written through links"));
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(folder_.read("a"), "old");
  EXPECT_EQ(testing::complaint([] { write_whole("/dev/null", "new"); }),
            "/dev/null: this exists, but is no file; name another file");
}

TEST_F(WholeFileTest, AFileOfTheProgramTakesThePlaceOfALink) {
  folder_.write("a", "old");
  fs::create_symlink("a", path("link"));
  write_whole(opened(), "link", "new");
  EXPECT_FALSE(fs::is_symlink(path("link")));
  EXPECT_EQ(folder_.read("link"), "new");
  EXPECT_EQ(folder_.read("a"), "old");
}

TEST_F(WholeFileTest, NoFolderInAFolderIsALink) {
  fs::create_directory(path("private"));
  fs::create_symlink("private", path("traces"));
  EXPECT_THAT(testing::complaint([&] { opened().inside("traces"); }),
              HasSubstr("traces: this is no folder, and links are not followed; remove it"));
  write_whole(opened().inside("new"), "a", "text");
  EXPECT_EQ(folder_.read("new/a"), "text");
}

TEST_F(WholeFileTest, AFolderStaysTheSameWhateverHappensToItsName) {
  fs::create_directory(path("before"));
  const OpenFolder folder(path("before"));
  EXPECT_EQ(folder.gone(), "");
  fs::rename(path("before"), path("after"));
  EXPECT_EQ(folder.gone(), "has been renamed to " + path("after").string());
  write_whole(folder, "a", "text");
  EXPECT_EQ(folder_.read("after/a"), "text");
  fs::create_directory(path("before"));
  EXPECT_EQ(folder.gone(), "has been renamed to " + path("after").string());
  fs::remove_all(path("after"));
  EXPECT_EQ(folder.gone(), "has been removed");
  EXPECT_EQ(testing::complaint([&] { write_whole(folder, "a", "text"); }),
            path("before/a").string() + ": cannot be written: its folder has been removed");
}

TEST_F(WholeFileTest, TouchesNoFileOfAnotherUser) {
  folder_.write("a.part", "mine");
  write_whole(path("a"), "new");
  EXPECT_EQ(folder_.read("a.part"), "mine");
  EXPECT_EQ(files(), 2u);
}

TEST_F(WholeFileTest, LeavesNothingWhereItIsNotPublished) {
  {
    WholeFile file(path("a"));
    file.write(bytes("half"), 0);
  }
  EXPECT_EQ(files(), 0u);
}

TEST_F(WholeFileTest, LeavesNothingWhereItsProcessIsKilled) {
  const pid_t child = fork();
  if (child == 0) {
    WholeFile file(path("a"));
    file.write(bytes("half"), 0);
    raise(SIGKILL);
  }
  waitpid(child, nullptr, 0);
  remove_abandoned_drafts(path("a"));  // for file systems where a draft must have a name
  EXPECT_EQ(files(), 0u);
}

TEST_F(WholeFileTest, RemovesDraftsOfProcessesThatHaveEnded) {
  const pid_t ended = fork();
  if (ended == 0) _exit(0);
  waitpid(ended, nullptr, 0);
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  const auto draft = [&](pid_t process) {
    return fmt::format("a.{}.{}.part", host, static_cast<int>(process));
  };
  folder_.write(draft(ended), "half");
  folder_.write(draft(getpid()), "half");
  folder_.write("a.elsewhere.1.part", "half");
  remove_abandoned_drafts(path("a"));
  EXPECT_FALSE(fs::exists(path(draft(ended))));
  EXPECT_TRUE(fs::exists(path(draft(getpid()))));
  EXPECT_EQ(files(), 2u);
}

TEST_F(WholeFileTest, NamesTheLimitOfAFile) {
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit small{2000, 2000};
    setrlimit(RLIMIT_FSIZE, &small);
    try {
      write_whole(path("a"), std::string(4000, 'x'));
    } catch (const Error& error) {
      const std::string text = error.what();
      const bool named = text.find(
                             "a: cannot be written: File too large; files are limited to 2 "
                             "KB (ulimit -f)") != std::string::npos;
      _exit(named ? 0 : 1);
    }
    _exit(2);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(files(), 0u);
}

TEST_F(WholeFileTest, NamesAFolderThatIsNotThere) {
  EXPECT_THAT(testing::complaint([&] { write_whole(path("absent/a"), "text"); }),
              HasSubstr("absent/a: cannot be written: No such file or directory"));
}

TEST_F(WholeFileTest, AFileGrowsAtItsEnd) {
  append_to_file(opened(), "a", "one\n");
  append_to_file(opened(), "a", "");
  append_to_file(opened(), "a", "two\n");
  EXPECT_EQ(folder_.read("a"), "one\ntwo\n");
}

TEST_F(WholeFileTest, NothingGrowsThroughALinkOrIntoAPipe) {
  folder_.write("a", "old");
  fs::create_symlink("a", path("link"));
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  for (const char* name : {"link", "pipe"})
    EXPECT_EQ(testing::complaint([&] { append_to_file(opened(), name, "text"); }),
              path(name).string() + ": this is no file, and links are not followed; remove it");
  EXPECT_EQ(folder_.read("a"), "old");
}

TEST_F(WholeFileTest, AFileThatCannotGrowIsNamed) {
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit none{0, 0};
    setrlimit(RLIMIT_FSIZE, &none);
    const std::string text = testing::complaint([&] { append_to_file(opened(), "a", "text"); });
    _exit(text.find("a: cannot be written: File too large") != std::string::npos ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace ringside
