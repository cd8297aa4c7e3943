package org.apache.pulsar.common.util.netty;

import io.netty.bootstrap.ServerBootstrap;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.nio.NioEventLoopGroup;
import io.netty.channel.socket.DatagramChannel;
import io.netty.channel.socket.ServerSocketChannel;
import io.netty.channel.socket.SocketChannel;
import io.netty.channel.socket.nio.NioDatagramChannel;
import io.netty.channel.socket.nio.NioServerSocketChannel;
import io.netty.channel.socket.nio.NioSocketChannel;
import io.netty.util.concurrent.Future;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;

/**
 * Clients' event loops, in place of the class of this name. They end at once: its own wait two
 * seconds for a last task, and nearly every test closes a client.
 */
public final class EventLoopUtil {
    private EventLoopUtil() {
    }

    public static EventLoopGroup newEventLoopGroup(int threads, boolean busyWait, ThreadFactory factory) {
        return new NioEventLoopGroup(threads, factory) {
            @Override
            public Future<?> shutdownGracefully() {
                return shutdownGracefully(0, 2, TimeUnit.SECONDS);
            }
        };
    }

    public static Class<? extends SocketChannel> getClientSocketChannelClass(EventLoopGroup group) {
        return NioSocketChannel.class;
    }

    public static Class<? extends ServerSocketChannel> getServerSocketChannelClass(EventLoopGroup group) {
        return NioServerSocketChannel.class;
    }

    public static Class<? extends DatagramChannel> getDatagramChannelClass(EventLoopGroup group) {
        return NioDatagramChannel.class;
    }

    public static void enableTriggeredMode(ServerBootstrap bootstrap) {
    }

    public static CompletableFuture<Void> shutdownGracefully(EventLoopGroup group) {
        return NettyFutureUtil.toCompletableFutureVoid(group.shutdownGracefully());
    }
}
