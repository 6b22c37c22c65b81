// Refusals of a server, and the leave of workers.
#include "tests/ps/server_fixture.h"

namespace ringside::ps {
namespace {

TEST_F(ServerTest, RefusesWhatIsWrongAndStaysSane) {
  ParameterServer server = make_server(2);
  server.handle(0, push(0, 0, 0));
  const auto changed = [&](auto change, int worker = 1) {
    Message message = push(worker, 0, 0);
    change(message);
    return message;
  };
  const auto expect = [&](Message message, const char* cause, int worker = 1) {
    const std::string text = refusal(server, worker, std::move(message));
    EXPECT_NE(text.find(cause), std::string::npos) << text << " | " << cause;
  };
  expect(changed([](Message& m) { m.header.token ^= 1; }), "token of another run");
  expect(changed([](Message& m) { m.header.worker = 0; }), "signed by worker 0");
  expect(changed([](Message&) {}, 2), "workers are 0 to 1", 2);
  expect(changed([](Message&) {}, -1), "workers are 0 to 1", -1);
  expect(changed([](Message& m) { m.header.reply = true; }), "the message is a reply");
  expect(changed([](Message& m) { m.header.begin = 1; }),
         "server 0 has no chunk of 32 elements that begins at element 1");
  expect(changed([](Message& m) { m.header.begin = -32; }),
         "no chunk of 32 elements that begins at element -32");
  expect(changed([](Message& m) { m.header.count = 16; }), "no chunk of 16 elements");
  expect(changed([](Message& m) { m.frames.clear(); }), "one frame of 32 fp32");
  expect(changed([](Message& m) { m.frames.push_back(m.frames[0]); }), "one frame of 32");
  expect(changed([](Message& m) { m.frames[0] = m.frames[0].range(0, 31); }), "one frame of 32");
  expect(changed([this](Message& m) {
           m.frames[0] = device_->tensor({32}, MemoryKind::gradient, DType::i32);
         }),
         "one frame of 32 fp32");
  expect(changed([](Message& m) { m.header.step = 1; }), "step 1 was pushed, but step 0 is due");
  expect(changed([](Message& m) { m.header.step = -1; }), "step -1 was pushed, but step 0 is due");
  expect(push(0, 0, 0), "step 0 has already been pushed", 0);
  expect(push(0, 0, 1), "before another worker pushed step 0", 0);
  expect(pull(1, 0, 1), "after 1 steps, but has pushed 0 steps");
  expect(pull(1, 0, -1), "it may ask for the values after 0 to 0 steps");
  expect(about(Kind::inputs, 1, chunks_[0], 0), "does not answer messages of this kind");
  expect(about(Kind::error, 1, chunks_[0], 0), "does not answer messages of this kind");
  expect(summand(1, 1, {1}), "for sum 1, but the next sum is number 0");
  Message single = summand(1, 0, {1});
  single.frames[0] = device_->tensor({1}, MemoryKind::communication);
  expect(single, "one frame of fp64 values");
  EXPECT_TRUE(server.handle(1, summand(1, 0, {1})).empty());
  expect(summand(1, 0, {1}), "values for sum 0 already");
  expect(summand(0, 0, {1, 2}), "another worker gave 1", 0);

  const Replies replies = server.handle(1, push(1, 0, 0));
  ASSERT_EQ(replies.size(), 2u);
  EXPECT_EQ(values_of(replies[0].message.frames.at(0)), sequential(2, 1)[0]);
  EXPECT_EQ(server.steps(), 0)
      << "no gradient of the other chunks was pushed, so no step is complete";
}

TEST_F(ServerTest, IsFinishedWhenEveryWorkerIsDone) {
  ParameterServer server = make_server(2);
  Message done;
  done.header = {.token = token, .kind = Kind::done, .worker = 1};
  EXPECT_TRUE(server.handle(1, done).empty());
  EXPECT_TRUE(server.seats().is_done(1));
  EXPECT_FALSE(server.seats().all_done());
  EXPECT_NE(refusal(server, 1, push(1, 0, 0)).find("has already said that it is done"),
            std::string::npos);
  done.header.worker = 0;
  server.handle(0, done);
  EXPECT_TRUE(server.seats().all_done());
  EXPECT_TRUE(server.failure().empty());
}

TEST_F(ServerTest, RemembersWhyAWorkerGaveUp) {
  ParameterServer server = make_server(2);
  Message failed;
  failed.header = {.token = token, .kind = Kind::failed, .worker = 1, .text = "out of memory"};
  EXPECT_TRUE(server.handle(1, failed).empty());
  EXPECT_EQ(server.failure(), "worker 1 gave up: out of memory");
}

}  // namespace
}  // namespace ringside::ps
