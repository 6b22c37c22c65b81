#include "ps/protocol/merges.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"

namespace ringside::ps {

std::vector<Header> Merges::untold(int worker) {
  std::vector<Header> headers;
  for (std::size_t& told = told_[static_cast<std::size_t>(worker)]; told < merges_.size(); ++told) {
    Header header;
    header.kind = Kind::merge;
    header.reply = true;
    header.worker = worker;
    header.step = static_cast<std::int64_t>(told);
    header.text = text_of(merges_[told]);
    headers.push_back(std::move(header));
  }
  return headers;
}

void Merges::take(const Header& header) {
  if (header.step < 0 || header.step > count())
    throw Error("it is about merge {}, but merge {} is the next one", header.step, count());
  std::vector<bool> workers = workers_in(header.text);
  if (header.step == count()) return decide(std::move(workers));
  if (workers != merges_[static_cast<std::size_t>(header.step)])
    throw Error("it names other workers of merge {} than a message before", header.step);
}

/// Four workers a digit, worker 0 in the lowest bit of the first one.
std::string Merges::text_of(const std::vector<bool>& workers) const {
  std::string text((workers_ + 3) / 4, '0');
  for (std::size_t digit = 0; digit < text.size(); ++digit) {
    std::size_t bits = 0;
    for (std::size_t w = 4 * digit; w < std::min(workers_, 4 * digit + 4); ++w)
      bits |= static_cast<std::size_t>(workers[w]) << (w % 4);
    text[digit] = "0123456789abcdef"[bits];
  }
  return text;
}

std::vector<bool> Merges::workers_in(std::string_view text) const {
  std::vector<bool> workers(workers_);
  if (text.size() != (workers_ + 3) / 4)
    throw Error("it names its workers with {} digits, but {} workers take {}", text.size(),
                workers_, (workers_ + 3) / 4);
  bool any = false;
  for (std::size_t digit = 0; digit < text.size(); ++digit) {
    const std::size_t bits = std::string_view("0123456789abcdef").find(text[digit]);
    if (bits == std::string_view::npos)
      throw Error("it names its workers with '{}', which is no digit", text[digit]);
    for (std::size_t w = 4 * digit; w < 4 * digit + 4; ++w) {
      if ((bits >> (w % 4) & 1) == 0) continue;
      if (w >= workers_) throw Error("it names worker {} of {}", w, workers_);
      workers[w] = any = true;
    }
  }
  if (!any) throw Error("it names no workers");
  return workers;
}

}  // namespace ringside::ps
