// The header of plug-ins, which include it as <ringside/plugin.h>: schemes, compressors,
// optimizers, models and data sets of your own, in a shared library beside the program.
//
//   g++ $(ringside plugin --cflags) mine.cc -o mine.so
//   ringside check-scheme mine --plugin mine.so
//   ringside compare FILE --plugin mine.so
#pragma once

#include <fmt/format.h>

#include <memory>
#include <span>
#include <vector>

#include "core/base/error.h"             // Error
#include "core/base/fields.h"            // Fields, Range: options with names
#include "core/compress/tensor_codes.h"  // Compressor, TensorCodes, make_compressor
#include "core/device/on_host.h"         // on_host: host work on a device's values
#include "core/models/model_info.h"      // ModelInfo
#include "core/num/random.h"             // random numbers by counter
#include "core/optim/flat_optimizer.h"   // FlatOptimizer
#include "core/plugin/plugin_rows.h"     // PluginRows
#include "core/plugin/stamp.h"           // RINGSIDE_STAMP
#include "core/scheme/exposed.h"         // wait_exposed, begin_traced
#include "core/scheme/local_replicas.h"  // LocalReplicas
#include "core/scheme/plain_scheme.h"    // plain_scheme, SchemeInfo, SyncScheme, Identity
#include "core/scheme/replica.h"         // Replica
#include "core/scheme/scalar_sum.h"      // sum_over_ranks
#include "core/scheme/single.h"          // define_sum: definitions for common parameters
#include "core/scheme/whole_update.h"    // WholeUpdate
#include "peer/schemes/ddp.h"            // ddp_minimum_bytes
#include "peer/schemes/local_rule.h"     // LocalRule
#include "peer/schemes/local_scheme.h"   // local_scheme, sum_bytes

/// Defines what the program looks for in a plug-in, once in the whole library. The arguments are
/// rows: of type SchemeInfo, CompressorInfo, OptimizerInfo, ModelInfo or DatasetInfo.
#define RINGSIDE_PLUGIN(...)                                                \
  extern "C" const char* ringside_plugin_stamp() { return RINGSIDE_STAMP; } \
  extern "C" void ringside_plugin_rows(ringside::PluginRows* rows) { rows->add_all(__VA_ARGS__); }
