// pare makes trained neural networks smaller without breaking them. This header is the whole API;
// README has a complete program.
//
// Methods are functions of one shape: a const Graph and perhaps Samples in, a result out. Options are plain structs, an
// Observer hears how the work goes, and whatever goes wrong is thrown as an Error. No function changes its arguments.
#pragma once

#include "pare/compare.h"
#include "pare/compress.h"
#include "pare/distill.h"
#include "pare/error.h"
#include "pare/evaluate.h"
#include "pare/explain.h"
#include "pare/fuse.h"
#include "pare/graph.h"
#include "pare/inspect.h"
#include "pare/io.h"
#include "pare/observer.h"
#include "pare/options.h"
#include "pare/prune.h"
#include "pare/quantize.h"
#include "pare/run.h"
#include "pare/samples.h"
#include "pare/sparsify.h"
#include "pare/train.h"
#include "pare/version.h"
