// Compiles with MIX undefined, and with no other: each value of it mixes two paths, which the types refuse.

#include <monopath/stream.h>

#include <optional>
#include <vector>

using monopath::DeferredCpu;
using monopath::DeferredCuda;

#ifndef MIX
#define MIX 0
#endif

void use(monopath::Stream<DeferredCpu>& stream, DeferredCpu::Item item, DeferredCuda::Item item_of_another_path,
         std::vector<monopath::Result<DeferredCpu>>& results) {
#if MIX == 1  // An item of one path on a stream of another.
  stream.send(item_of_another_path);
#else
  stream.send(item);
#endif

#if MIX == 2  // A source of one path for a stream of another.
  stream.map([&] { return std::optional(item_of_another_path); }, [](monopath::Result<DeferredCpu>) {});
#elif MIX == 3  // Results of one path taken as those of another.
  stream.map([&] { return std::optional(item); }, [](monopath::Result<DeferredCuda>) {});
#else
  stream.map([&] { return std::optional(item); }, [](monopath::Result<DeferredCpu>) {});
#endif

#if MIX == 4  // Results of two paths in one container.
  results.push_back(monopath::Result<DeferredCuda>());
#else
  results.push_back(*stream.next());
#endif
  (void)item_of_another_path;
}
