// A device for tests: its memory is the host's, its kernels the CPU's, and yet tensors of it and of the CPU do not mix.
#include <torch/extension.h>
#include <torch/library.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/Resize.h>
#include <ATen/CPUFunctions.h>
#include <ATen/NativeFunctions.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace {
constexpr auto KIND = c10::DeviceType::PrivateUse1;
thread_local c10::DeviceIndex current = 0;
constexpr c10::DeviceIndex COUNT = 2;

void give_back(void* data) { std::free(data); }

struct Allocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    void* data = bytes ? std::malloc(bytes) : nullptr;
    return {data, data, &give_back, c10::Device(KIND, current)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }
};
Allocator allocator;

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return KIND; }
  c10::Device exchangeDevice(c10::Device device) const override { auto before = getDevice(); current = device.index(); return before; }
  c10::Device getDevice() const override { return c10::Device(KIND, current); }
  void setDevice(c10::Device device) const override { current = device.index(); }
  void uncheckedSetDevice(c10::Device device) const noexcept override { current = device.index(); }
  c10::Stream getStream(c10::Device device) const override { return c10::Stream(c10::Stream::DEFAULT, device); }
  c10::Stream getNewStream(c10::Device device, int) const override { return c10::Stream(c10::Stream::DEFAULT, device); }
  c10::Stream exchangeStream(c10::Stream stream) const override { return c10::Stream(c10::Stream::DEFAULT, stream.device()); }
  c10::DeviceIndex deviceCount() const noexcept override { return COUNT; }
  void record(void**, const c10::Stream&, c10::DeviceIndex, c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  at::Allocator* getPinnedMemoryAllocator() const override { return at::getCPUAllocator(); }
  bool isPinnedPtr(const void*) const override { return false; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return COUNT; }
  c10::DeviceIndex getCurrentDevice() const override { return current; }
  void setCurrentDevice(c10::DeviceIndex index) const override { current = index; }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override { auto before = current; current = index; return before; }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override { return exchangeDevice(index); }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override { return at::detail::getDefaultCPUGenerator(); }
};

at::Tensor host(const at::Tensor& tensor) {  // the same memory, as a tensor of the CPU
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(), tensor.options().device(at::kCPU));
}
struct On { c10::DeviceIndex before = current; explicit On(std::optional<at::Device> device) { if (device && device->has_index()) current = device->index(); } ~On() { current = before; } };

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>, std::optional<at::Device> device, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  On guard(device);
  return at::detail::empty_generic(size, &allocator, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), c10::dtype_or_default(dtype), format);
}
at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> dtype, std::optional<at::Layout>, std::optional<at::Device> device, std::optional<bool>) {
  On guard(device);
  return at::detail::empty_strided_generic(size, stride, &allocator, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), c10::dtype_or_default(dtype));
}
at::Tensor copy_from(const at::Tensor& self, const at::Tensor& dst, bool) {
  auto from = self.is_cpu() ? self : host(self);
  auto to = dst.is_cpu() ? dst : host(dst);
  to.copy_(from);
  return dst;
}
at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& dst) { dst.resize_(self.sizes()); return copy_from(self, dst, false); }
at::Scalar local_scalar(const at::Tensor& self) { return host(self).item(); }
const at::Tensor& resize_(const at::Tensor& self, c10::SymIntArrayRef size, std::optional<at::MemoryFormat>) {
  auto sizes = C10_AS_INTARRAYREF_SLOW(size);
  auto* impl = self.unsafeGetTensorImpl();
  auto bytes = at::detail::computeStorageNbytesContiguous(sizes, self.dtype().itemsize(), self.storage_offset());
  if (self.storage().nbytes() < bytes) { auto data = allocator.allocate(bytes); if (self.storage().nbytes()) std::memcpy(data.get(), self.storage().data(), self.storage().nbytes()); self.storage().set_data_ptr_noswap(std::move(data)); self.storage().set_nbytes(bytes); }
  impl->set_sizes_contiguous(sizes);
  return self;
}
at::Tensor& set_storage(at::Tensor& self, at::Storage source, int64_t offset, at::IntArrayRef size, at::IntArrayRef stride) {
  return at::native::set_storage_cpu_(self, source, offset, size, stride);
}
void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) { at::native::cpu_fallback(op, stack); }

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>()); }
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("_local_scalar_dense", local_scalar);
  m.impl("resize_", resize_);
  m.impl("as_strided", [](const at::Tensor& self, at::IntArrayRef size, at::IntArrayRef stride, std::optional<int64_t> offset) { return at::cpu::as_strided(self, size, stride, offset); });
  m.impl("view", [](const at::Tensor& self, at::IntArrayRef size) { return at::native::view(self, size); });
  m.impl("_reshape_alias", [](const at::Tensor& self, at::IntArrayRef size, at::IntArrayRef stride) { return at::native::_reshape_alias(self, size, stride); });
  m.impl("set_.source_Storage_storage_offset", set_storage);
  m.impl("unfold", [](const at::Tensor& self, int64_t d, int64_t s, int64_t st) { return at::native::unfold(self, d, s, st); });
}
}  // namespace
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("register", [] { c10::SetAllocator(KIND, &allocator); at::RegisterPrivateUse1HooksInterface(new Hooks()); });
  m.def("current", [] { return static_cast<int>(current); });
  m.def("exchange", [](int index) { auto before = current; current = index; return static_cast<int>(before); });
}
TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }
