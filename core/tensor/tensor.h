// Tensor: a typed view of a device buffer.
#pragma once

#include <cassert>
#include <memory>
#include <span>

#include "core/tensor/buffer.h"
#include "core/tensor/dtype.h"
#include "core/tensor/shape.h"

namespace ringside {

/// A contiguous, row-major array inside a buffer. Copying a Tensor copies the view, not the
/// elements; the buffer lives as long as its last view. A default-constructed Tensor is empty:
/// it stands for "not wanted" wherever an operation has an optional operand.
class Tensor {
 public:
  Tensor() = default;
  Tensor(std::shared_ptr<Buffer> buffer, std::size_t byte_offset, Shape shape, DType dtype)
      : buffer_(std::move(buffer)), offset_(byte_offset), shape_(shape), dtype_(dtype) {
    assert(buffer_ && offset_ + bytes() <= buffer_->bytes());
  }

  explicit operator bool() const { return buffer_ != nullptr; }
  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  std::int64_t count() const { return shape_.count(); }
  std::size_t bytes() const { return static_cast<std::size_t>(count()) * size_of(dtype_); }
  const std::shared_ptr<Buffer>& buffer() const { return buffer_; }
  std::size_t byte_offset() const { return offset_; }

  /// Address of the first element; null on a device whose buffers have no memory.
  template <class T>
  T* data() const {
    assert(!buffer_ || dtype_of<T> == dtype_ || dtype_of<T> == DType::u8);
    if (!buffer_ || !buffer_->data()) return nullptr;
    return reinterpret_cast<T*>(buffer_->data() + offset_);
  }

  /// Whether both begin with the same byte of the same buffer.
  bool begins_at(const Tensor& other) const {
    return buffer_ == other.buffer_ && offset_ == other.offset_;
  }

  template <class T>
  std::span<T> span() const {
    return {data<T>(), static_cast<std::size_t>(count())};
  }

  /// The same elements under another shape with the same count.
  Tensor reshaped(Shape shape) const {
    assert(shape.count() == count());
    return {buffer_, offset_, shape, dtype_};
  }

  /// Elements [begin, begin + shape.count()) of the flat array, as a view with that shape.
  Tensor view(std::int64_t begin, Shape shape) const {
    assert(begin >= 0 && begin + shape.count() <= count());
    return {buffer_, offset_ + static_cast<std::size_t>(begin) * size_of(dtype_), shape, dtype_};
  }

  /// Elements [begin, begin + count) of the flat array, as a flat view.
  Tensor range(std::int64_t begin, std::int64_t count) const { return view(begin, Shape{count}); }

 private:
  std::shared_ptr<Buffer> buffer_;
  std::size_t offset_ = 0;
  Shape shape_;
  DType dtype_ = DType::f32;
};

}  // namespace ringside
