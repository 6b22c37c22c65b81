#include "core/checkpoint/host_copies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/error.h"
#include "tests/support/complaint.h"

namespace ringside {
namespace {

using nlohmann::ordered_json;
using testing::complaint;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

const StateKey parameters{"parameters", -1};

/// Elements [begin, begin + count), whose values tell their number and the step.
HostRange range(std::int64_t begin, std::size_t count, std::int64_t step) {
  HostRange out{parameters, begin, std::vector<float>(count)};
  for (std::size_t i = 0; i < count; ++i)
    out.values[i] = static_cast<float>(begin + static_cast<std::int64_t>(i)) +
                    0.001F * static_cast<float>(step);
  return out;
}

ordered_json first_part() {
  return {{"run", {{"world", 2}}}, {"parameters", 150}, {"program", "this"}};
}

/// The copies that are whole, by their steps.
std::vector<std::int64_t> steps_of(const HostCopies& copies) {
  std::vector<std::int64_t> out;
  for (const shm::Address& file : copies.files())
    if (const auto done = HostCopy(file).done()) out.push_back(*done);
  std::sort(out.begin(), out.end());
  return out;
}

TEST(HostCopies, TheTwoLatestStepsAreThere) {
  HostCopies copies(first_part());
  for (std::int64_t step = 1; step <= 5; ++step)
    EXPECT_EQ(copies.write(step, {{"losses", {{"worker", 0}}}}, {range(0, 100, step)}), step <= 2);
  EXPECT_THAT(steps_of(copies), ElementsAre(4, 5));
}

TEST(HostCopies, OfAllPartsMakeACheckpoint) {
  HostCopies first(first_part()), second(ordered_json::object());
  std::vector<shm::Address> files;
  for (std::int64_t step = 6; step <= 7; ++step) {
    first.write(step, {{"losses", {{"worker", 0}}}, {"loss_scale", {{"value", 2}}}},
                {range(0, 100, step)});
    second.write(step, {{"losses", {{"worker", 1}}}}, {range(100, 50, step)});
  }
  for (const HostCopies* copies : {&first, &second})
    for (const shm::Address& file : copies->files())
      if (HostCopy(file).done() == 7) files.push_back(file);
  const Checkpoint checkpoint = checkpoint_of_copies(files);
  EXPECT_EQ(checkpoint.manifest().step, 7);
  EXPECT_EQ(checkpoint.manifest().parameters, 150);
  EXPECT_EQ(checkpoint.manifest().run.at("world"), 2);
  EXPECT_THAT(checkpoint.manifest().scalars.at("losses"), SizeIs(2));
  EXPECT_EQ(checkpoint.manifest().scalars.at("losses").at(1).at("worker"), 1);
  EXPECT_EQ(checkpoint.state().at(parameters), 150);
  std::vector<float> out(20);
  checkpoint.read(parameters, 90, out);
  EXPECT_EQ(out, range(90, 20, 7).values);
}

TEST(HostCopies, OfDifferentStepsMakeNone) {
  HostCopies first(first_part()), second(ordered_json::object());
  first.write(3, ordered_json::object(), {range(0, 10, 3)});
  second.write(4, ordered_json::object(), {range(10, 10, 4)});
  EXPECT_THAT(complaint([&] {
                checkpoint_of_copies({first.files()[0], second.files()[0]});
              }),
              HasSubstr("no copy of the state after 3 steps"));
}

TEST(HostCopies, GrowWithWhatTheyHold) {
  HostCopies copies(first_part());
  copies.write(1, ordered_json::object(), {range(0, 10, 1)});
  copies.write(2, ordered_json::object(), {range(0, 10, 2)});
  EXPECT_TRUE(copies.write(3, ordered_json::object(), {range(0, 1'000'000, 3)}));
  EXPECT_THAT(steps_of(copies), ElementsAre(2, 3));
}

/// Whoever has opened the files has the copies when their process was killed; one that was being
/// written then counts for nothing.
TEST(HostCopies, OutliveTheirProcess) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    HostCopies copies(first_part());
    copies.write(8, ordered_json::object(), {range(0, 1000, 8)});
    copies.write(9, ordered_json::object(), {range(0, 1000, 9)});
    const std::string files = text_of_copies(copies.files());
    if (write(ready[1], files.data(), files.size()) < 0) _exit(1);
    for (;;) pause();
  }
  std::string text(4096, ' ');
  text.resize(
      static_cast<std::size_t>(std::max<ssize_t>(0, read(ready[0], text.data(), text.size()))));
  std::vector<HostCopy> held;
  for (const shm::Address& file : parse_copies(text)) held.emplace_back(file);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  ASSERT_THAT(held, SizeIs(2));
  EXPECT_EQ(held[1].done(), 9);
  std::vector<float> out(1000);
  checkpoint_of_copies({held[1].address()}).read(parameters, 0, out);
  EXPECT_EQ(out, range(0, 1000, 9).values);
  EXPECT_THAT(complaint([&] { HostCopy(parse_copies(text)[0]); }), HasSubstr("cannot open"));
  close(ready[0]);
  close(ready[1]);
}

TEST(HostCopies, WhatIsNoSuchFileIsRefused) {
  const shm::File other = shm::File::create(4096, "other");
  EXPECT_THAT(
      complaint([&] {
        HostCopy({.process = getpid(), .file = other.number(), .identity = other.identity()});
      }),
      HasSubstr("no copy of a run's state"));
  for (const char* text : {"", "{}x", "[[1]]", "[[\"a\",2,3]]"})
    EXPECT_THAT(complaint([&] { parse_copies(text); }), HasSubstr("names no copies")) << text;
}

}  // namespace
}  // namespace ringside
