/**
 * The version of this package, which is that of the gateway.
 *
 * Made by `make sdk` from the gateway's descriptors: do not edit.
 */

export const VERSION = "0.1.0";
