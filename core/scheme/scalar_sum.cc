#include "core/scheme/scalar_sum.h"

#include <vector>

#include "core/scheme/exposed.h"

namespace ringside {

void sum_over_ranks(Device& device, Communicator& communicator, std::span<double> values,
                    Timeline* timeline) {
  const auto count = static_cast<std::int64_t>(values.size());
  const Tensor all =
      device.tensor({count * communicator.size()}, MemoryKind::communication, DType::f64);
  const Tensor own = all.range(count * communicator.rank(), count);
  device.write(own, std::as_bytes(values));
  communicator.name_next("sums of scalars");
  const bool traced = timeline && timeline->traces();
  const Mark begin = traced ? device.mark() : Mark{};
  Work::Note note;
  communicator.complete([&] {
    WorkPtr work = communicator.all_gather(own, all);
    note = work->note;
    return work;
  });
  if (traced) timeline->add_traced("scalars", "sums of scalars", begin, span_note(note));
  std::vector<double> gathered(values.size() * static_cast<std::size_t>(communicator.size()));
  device.read(all, std::as_writable_bytes(std::span(gathered)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = gathered[i];
    for (std::size_t at = i + values.size(); at < gathered.size(); at += values.size())
      values[i] += gathered[at];
  }
}

}  // namespace ringside
