package org.apache.pulsar.packages.management.core;

/** Named by a setting of Pulsar's tests, whose own one is in another jar; nothing here reads it. */
public final class MockedPackagesStorageProvider {
}
