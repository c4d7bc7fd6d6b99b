// What a plan says of the rows of features.
#ifndef MONOPATH_PLANS_H_
#define MONOPATH_PLANS_H_

#include "monopath/v1/geometry.pb.h"

namespace monopath {

// The plan's patch grid; nullptr for a family whose rows of features are no patches of a grid: there the plan has a
// `tile_grid` or a `fixed_size`, and its `grid_thw` is all zero.
inline const v1::GridThw* patch_grid(const v1::ImagePlan& plan) noexcept {
  return plan.grid_thw().t() == 0 ? nullptr : &plan.grid_thw();
}

}  // namespace monopath

#endif  // MONOPATH_PLANS_H_
