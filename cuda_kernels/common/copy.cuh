// Copies of whole elements without a trip through float. TKV_COPY: elements per access (4 or 8), chosen so that rows stay aligned.
#include "common/element.cuh"

#if TKV_COPY * (TKV_DTYPE == 0 ? 4 : 2) == 16
using CopyWord = uint4;
#else
using CopyWord = uint2;
#endif
