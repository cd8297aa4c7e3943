// Package orders shows a test against a cluster of three brokers, with a fault that it asks for.
package orders

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

// addresses is the line that `counterpoise up --json` prints once the brokers serve.
type addresses struct {
	Service string `json:"service_url"`
	Admin   string `json:"admin_url"`
}

var cluster addresses

func TestMain(m *testing.M) {
	// One cluster for all tests of the package.
	command := exec.Command("counterpoise", "up", "--faults", "--json")
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		log.Fatalf("counterpoise up: %v (pip install counterpoise)", err)
	}
	line, _ := bufio.NewReader(output).ReadBytes('\n')
	if err := json.Unmarshal(line, &cluster); err != nil {
		log.Fatalf("counterpoise up said %q: %v", line, err)
	}
	status := m.Run()
	_ = command.Process.Signal(os.Interrupt)
	_ = command.Wait()
	os.Exit(status)
}

func connect(t *testing.T) pulsar.Client {
	client, err := pulsar.NewClient(pulsar.ClientOptions{URL: cluster.Service})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// fault asks the cluster for something to go wrong, until the test ends.
func fault(t *testing.T, body string) {
	url := cluster.Admin + "/admin/v2/faults"
	answer, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(answer.Body)
		t.Fatalf("the fault was refused: %s", said)
	}
	t.Cleanup(func() {
		request, _ := http.NewRequest(http.MethodDelete, url, nil)
		if answer, err := http.DefaultClient.Do(request); err == nil {
			answer.Body.Close()
		}
	})
}

func TestARefusedOrderIsSentAgain(t *testing.T) {
	client := connect(t)
	topic := fmt.Sprintf("orders-%d", time.Now().UnixNano())
	consumer, err := client.Subscribe(pulsar.ConsumerOptions{
		Topic: topic, SubscriptionName: "billing",
		SubscriptionInitialPosition: pulsar.SubscriptionPositionEarliest,
	})
	if err != nil {
		t.Fatal(err)
	}
	producer, err := client.CreateProducer(pulsar.ProducerOptions{Topic: topic})
	if err != nil {
		t.Fatal(err)
	}
	fault(t, fmt.Sprintf(
		`{"operation": "SEND", "topic": %q, "effect": "error", "code": "PersistenceError", "times": 1}`, topic))

	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if _, err := producer.Send(ctx, &pulsar.ProducerMessage{Payload: []byte("order 1")}); err != nil {
		t.Fatal(err)
	}
	message, err := consumer.Receive(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if string(message.Payload()) != "order 1" {
		t.Fatalf("received %q", message.Payload())
	}
}
